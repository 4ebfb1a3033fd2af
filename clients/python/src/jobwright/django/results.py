"""Results of tasks: kept by the worker if they succeeded, and otherwise read from the tables."""

import builtins
import json
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.db import connections
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.module_loading import import_string

from .. import schema as names
from .tasks import TaskError, TaskResult, TaskResultStatus

if TYPE_CHECKING:
    from .backend import Backend

RUNNING = ("running", "external")


def aware(moment: datetime | None) -> datetime | None:
    """A time of Django's for the database: without USE_TZ it is one of TIME_ZONE."""
    return timezone.make_aware(moment) if moment is not None and timezone.is_naive(moment) else moment


def local(moment: datetime | None) -> datetime | None:
    """A time of the database as Django has it."""
    if moment is None or settings.USE_TZ:
        return moment
    return timezone.make_naive(moment) if timezone.is_aware(moment) else moment


def envelope(result: Any, value: Any) -> dict[str, Any]:
    """The result of a job as it is kept: JSON."""

    def text(moment: datetime | None) -> str | None:
        return None if moment is None else moment.isoformat()

    return {
        "task": result.task.module_path,
        "args": result.args,
        "kwargs": result.kwargs,
        "queue": result.task.queue_name,
        "priority": result.task.priority,
        "value": value,
        "enqueued_at": text(result.enqueued_at),
        "started_at": text(result.started_at),
        "finished_at": text(timezone.now()),
        "last_attempted_at": text(result.last_attempted_at),
        "worker_ids": result.worker_ids,
    }


def find(backend: "Backend", id: UUID) -> Any:
    """The TaskResult of a job; None if there is none, or no longer."""
    own = backend.jobwright
    schema = names.quoted(own.schema)
    with connections[own.database].cursor() as cursor:
        # The job first: it is gone when the result is there.
        cursor.execute(
            "select queue, state, payload::text, priority, attempt, created_at, dead_at, errors::text"
            f" from {schema}.jobs where id = %s and kind = %s",
            [id, own.kind],
        )
        if (row := cursor.fetchone()) is not None:
            return _of_job(backend, id, *row)
        cursor.execute(f"select payload::text from {schema}.result where job_id = %s and kind = %s", [id, own.kind])
        row = cursor.fetchone()
        return None if row is None else _of_result(backend, id, json.loads(row[0]))


def task_of(backend: "Backend", path: str, queue: str, priority: int) -> Any:
    """The task by its path. Raises ImportError if this program has not got it."""
    return import_string(path).using(queue_name=queue, priority=priority, backend=backend.alias)


def _of_job(
    backend: "Backend",
    id: UUID,
    queue: str,
    state: str,
    payload: str,
    priority: int,
    attempt: int,
    created_at: datetime,
    dead_at: datetime | None,
    errors: str | None,
) -> Any:
    content = json.loads(payload)
    failures = json.loads(errors or "[]")
    status = TaskResultStatus.READY
    if state in RUNNING:
        status = TaskResultStatus.RUNNING
    elif state == "dead":
        status = TaskResultStatus.FAILED
    last = parse_datetime(failures[-1]["at"]) if failures else None
    return TaskResult(
        task=task_of(backend, content["task"], queue, priority),
        id=str(id),
        status=status,
        enqueued_at=local(created_at),
        started_at=None,
        last_attempted_at=local(last),
        finished_at=local(dead_at),
        args=content["args"],
        kwargs=content["kwargs"],
        backend=backend.alias,
        errors=[error_of(failure) for failure in failures],
        # The tables don't keep the names of the workers, only how many attempts there were.
        worker_ids=["jobwright"] * attempt,
    )


def error_of(failure: dict[str, Any]) -> Any:
    """The worker wrote the path of the exception's class in front."""
    path = class_path(failure["error"].partition(":")[0])
    return TaskError(exception_class_path=path, traceback=failure.get("detail") or "")


def class_path(name: str) -> str:
    """The path of an exception's class, by the name with which errors begin. Those of `Fatal` begin with others."""
    if re.fullmatch(r"\w+(\.\w+)+", name):
        return name
    known = isinstance(found := getattr(builtins, name, None), type) and issubclass(found, BaseException)
    return f"builtins.{name}" if known else "jobwright.errors.JobwrightError"


def _of_result(backend: "Backend", id: UUID, kept: dict[str, Any]) -> Any:
    def moment(name: str) -> datetime | None:
        return None if kept[name] is None else parse_datetime(kept[name])

    result = TaskResult(
        task=task_of(backend, kept["task"], kept["queue"], kept["priority"]),
        id=str(id),
        status=TaskResultStatus.SUCCESSFUL,
        enqueued_at=moment("enqueued_at"),
        started_at=moment("started_at"),
        last_attempted_at=moment("last_attempted_at"),
        finished_at=moment("finished_at"),
        args=kept["args"],
        kwargs=kept["kwargs"],
        backend=backend.alias,
        errors=[],
        worker_ids=kept["worker_ids"],
    )
    object.__setattr__(result, "_return_value", kept["value"])
    return result
