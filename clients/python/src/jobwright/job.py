"""A job, as its handler sees it."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

#: The columns of `take` that `details` expects, in this order. JSON comes as text, so that content that Python can't
#: read (numbers of thousands of digits, lists within lists without end) is an error of its job alone.
COLUMNS = (
    "id, token, kind, payload::text, body, content_type, headers::text, attempt, max_attempts, exclusive_group, tenant,"
    " priority, created_at, lease_until, last_error, checkpoint::text"
)


class Progress(Protocol):
    """Notes how far a job has got."""

    def __call__(self, percent: int | None, note: str | None, checkpoint: Any) -> None: ...


class AsyncProgress(Protocol):
    """The same, to be awaited."""

    def __call__(self, percent: int | None, note: str | None, checkpoint: Any) -> Awaitable[None]: ...


@dataclass(frozen=True, eq=False, kw_only=True)
class JobDetails:
    """A job as the table had it when it was taken. Its `repr`, for logs, has nothing of its content."""

    id: UUID
    """The same at each attempt: an idempotency key for effects outside of the transaction."""
    queue: str
    kind: str
    payload: Any = field(repr=False)
    """JSON; None if the content is in `body`."""
    body: bytes | None = field(repr=False)
    content_type: str | None
    """The format of `body`; None for JSON."""
    headers: Mapping[str, Any] = field(repr=False)
    attempt: int
    """1 is the first."""
    max_attempts: int
    group: str | None
    """The exclusive group: its jobs never overlap."""
    tenant: str | None
    priority: int
    created_at: datetime
    lease_until: datetime
    """When the lease ended that it was taken with. The worker renews it while the handler runs."""
    last_error: str | None = field(repr=False)
    """That of the attempt before."""
    checkpoint: Any = field(repr=False)
    """The last one of an earlier attempt, None at the first."""


def _no_progress(percent: int | None, note: str | None, checkpoint: Any) -> None:
    return None


async def _no_async_progress(percent: int | None, note: str | None, checkpoint: Any) -> None:
    return None


@dataclass(frozen=True, eq=False, kw_only=True)
class Job(JobDetails):
    """A job of a `Worker`."""

    cancelled: threading.Event = field(default_factory=threading.Event, repr=False)
    """Set when the work is in vain or has to end: the job was cancelled or lost, or the worker's time to stop is up."""
    _progress: Progress = field(default=_no_progress, repr=False)

    def progress(self, percent: int | None = None, note: str | None = None, *, checkpoint: Any = None) -> None:
        """Notes how far it has got (0 to 100), for people, and the checkpoint (JSON) that the next attempt gets.

        None leaves a value as it was. It is written at once, apart from the handler's transaction.
        Raises JobLost or JobCancelled if the job is no longer this worker's, and psycopg.Error.
        """
        self._progress(percent, note, checkpoint)


@dataclass(frozen=True, eq=False, kw_only=True)
class AsyncJob(JobDetails):
    """A job of an `AsyncWorker`."""

    cancelled: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """As `Job.cancelled`. Some seconds later (`cancel_grace`) the handler's task is cancelled, too."""
    _progress: AsyncProgress = field(default=_no_async_progress, repr=False)

    async def progress(self, percent: int | None = None, note: str | None = None, *, checkpoint: Any = None) -> None:
        """As `Job.progress`."""
        await self._progress(percent, note, checkpoint)


def details(queue: str, row: Sequence[Any]) -> dict[str, Any]:
    """The arguments of a job, from a row with `COLUMNS`. The token stays out: it is not for handlers, nor for logs.

    Raises ValueError or RecursionError if its JSON can't be read.
    """
    names = [name.strip().removesuffix("::text") for name in COLUMNS.split(",")]
    found = dict(zip(names, row, strict=True))
    del found["token"]
    for name in ("payload", "headers", "checkpoint"):
        found[name] = None if found[name] is None else json.loads(found[name])
    found["group"] = found.pop("exclusive_group")
    return {**found, "queue": queue}
