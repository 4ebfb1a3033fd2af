"""A `Worker` that runs the tasks of a backend."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..durations import seconds
from ..threads.worker import Worker
from .backend import Backend
from .running import handler
from .sessions import DjangoSessions

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..settings import Options


def worker(backend: Backend, queues: Sequence[str] = (), **options: "Unpack[Options]") -> Worker:
    """`queues`: those of the backend without it. Raises ValueError for a setting that can't be used."""
    served = tuple(queues) or tuple(sorted(backend.queues))
    if not served:
        raise ValueError(f"TASKS[{backend.alias!r}] takes tasks for any queue: say which of them this worker serves")
    options = {**options, "queue": served, "schema": backend.jobwright.schema}
    timeout = seconds(options.get("call_timeout", 30.0), "call_timeout")
    sessions = DjangoSessions(backend.jobwright.database, timeout)
    made = Worker(sessions=sessions, **options)
    made.handle(backend.jobwright.kind, handler(backend, sessions, made.name))
    return made
