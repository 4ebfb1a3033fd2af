"""The backend for TASKS: a task is sent in the transaction of Django's connection."""

from typing import Any
from uuid import UUID

from django.core import checks
from django.db import connections, transaction
from django.utils import timezone

from .. import sending
from ..statements import Statements
from . import options, results
from .tasks import (
    BaseTaskBackend,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)


class Backend(BaseTaskBackend):
    """A task is enqueued if, and only if, the transaction commits: inside `atomic()` with everything else in it."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.jobwright = options.read(alias, self.options)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Sends the task. Raises InvalidTask (InvalidTaskError in django-tasks) and errors of the database."""
        self.validate_task(task)
        own = self.jobwright
        result = TaskResult(
            task=task,
            id="",
            status=TaskResultStatus.READY,
            enqueued_at=None,
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        payload = {"task": task.module_path, "args": result.args, "kwargs": result.kwargs, "backend": self.alias}
        given = {
            "queue": task.queue_name,
            "priority": task.priority,
            "due_at": results.aware(task.run_after),
            "max_attempts": own.max_attempts,
            "retry": own.retry,
        }
        with connections[own.database].cursor() as cursor:
            call = sending.call(own.schema, own.kind, payload, given)
            cursor.execute(call.query.decode(), call.parameters)
            object.__setattr__(result, "id", str(cursor.fetchone()[0]))
        object.__setattr__(result, "enqueued_at", timezone.now())
        if own.wake and task.run_after is None:
            self._wake_after_commit(task.queue_name)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """The state of a task, or its result for as long as it is kept. Raises TaskResultDoesNotExist.

        The database's role needs `select` on jobwright's tables `result` and `progress`, and on the view `jobs`.
        """
        try:
            id = UUID(result_id)
        except ValueError as error:
            raise TaskResultDoesNotExist(result_id) from error
        found = results.find(self, id)
        if found is None:
            raise TaskResultDoesNotExist(result_id)
        return found

    def check(self, **kwargs: Any) -> list[Any]:
        """The system checks of Django."""
        connection = connections[self.jobwright.database]
        if connection.vendor == "postgresql" and getattr(connection.Database, "__version__", "2").startswith("3"):
            return [*super().check(**kwargs)]
        return [
            checks.Error(
                f"TASKS[{self.alias!r}]: the database {self.jobwright.database!r} is not PostgreSQL with psycopg 3",
                hint="Install psycopg (not psycopg2), and name a database of PostgreSQL in OPTIONS: DATABASE.",
                id="jobwright.E001",
            )
        ]

    def _wake_after_commit(self, queue: str) -> None:
        """One notification for each queue, however many tasks the transaction enqueues."""
        connection = connections[self.jobwright.database]
        if not connection.in_atomic_block and not connection.get_autocommit():
            return  # The program commits by itself, and there are no callbacks.
        unwoken = vars(connection).setdefault("_jobwright_unwoken", {})
        key = (self.jobwright.schema, queue)
        # One that was rolled back stays, and serves the next transaction.
        batch = unwoken.setdefault(key, object())

        def wake() -> None:
            if unwoken.get(key) is batch:
                del unwoken[key]
                self._wake(queue)

        transaction.on_commit(wake, using=self.jobwright.database, robust=True)

    def _wake(self, queue: str) -> None:
        with connections[self.jobwright.database].cursor() as cursor:
            call = Statements(self.jobwright.schema).wake(queue)
            cursor.execute(call.query.decode(), call.parameters)
