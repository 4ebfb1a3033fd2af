"""Runs a task: the handler of the jobs of a backend."""

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.utils import timezone
from psycopg import Connection

from .. import ending
from ..job import Job
from ..outcome import Done, Fatal, Later
from . import results
from .backend import Backend
from .sessions import DjangoSessions
from .tasks import TaskContext, TaskError, TaskResult, TaskResultStatus, normalize_json, task_finished, task_started


def handler(backend: Backend, sessions: DjangoSessions, worker: str) -> Callable[[Job, Connection[Any]], Any]:
    """For a `Worker` with these sessions. `worker`: its name, which the task's context has."""

    def handle(job: Job, connection: Connection[Any]) -> Any:
        try:
            result = _result(backend, job, worker)
        except (ImportError, AttributeError, KeyError, TypeError) as error:
            raise Fatal(f"{type(error).__name__}: {error} (this worker has no such task)") from error
        task_started.send(type(backend), task_result=result)
        try:
            value = _call(result)
        except Exception as error:
            if isinstance(error, Fatal) or (job.attempt >= job.max_attempts and not isinstance(error, Later)):
                failure = _error(error)
                # What receivers write is not to be rolled back with the task.
                sessions.on_rollback(lambda: _finished(backend, result, TaskResultStatus.FAILED, failure))
            raise
        object.__setattr__(result, "_return_value", value)
        transaction.on_commit(
            lambda: _finished(backend, result, TaskResultStatus.SUCCESSFUL),
            using=backend.jobwright.database,
            robust=True,
        )
        keep = backend.jobwright.keep_results
        return Done(None if keep is None else results.envelope(result, value), keep)

    return handle


def _call(result: Any) -> Any:
    """Calls the function of a task, a coroutine function too, and gives its result as JSON."""
    first = [TaskContext(task_result=result)] if result.task.takes_context else []
    return normalize_json(result.task.call(*first, *result.args, **result.kwargs))


def _finished(backend: Backend, result: Any, status: Any, *errors: Any) -> None:
    """Tells the receivers of `task_finished`."""
    object.__setattr__(result, "finished_at", timezone.now())
    object.__setattr__(result, "status", status)
    result.errors.extend(errors)
    task_finished.send_robust(type(backend), task_result=result)


def _error(error: Exception) -> Any:
    return TaskError(exception_class_path=results.class_path(ending.name(error)), traceback=ending.trace(error))


def _result(backend: Backend, job: Job, worker: str) -> Any:
    now = timezone.now()
    return TaskResult(
        task=results.task_of(backend, job.payload["task"], job.queue, job.priority),
        id=str(job.id),
        status=TaskResultStatus.RUNNING,
        enqueued_at=results.local(job.created_at),
        started_at=now,
        last_attempted_at=now,
        finished_at=None,
        args=job.payload["args"],
        kwargs=job.payload["kwargs"],
        backend=backend.alias,
        errors=[],
        worker_ids=["jobwright"] * (job.attempt - 1) + [worker],
    )
