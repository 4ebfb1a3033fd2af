"""Deadlines: handlers are told that their leases have ended, and connections are ended that are past a deadline."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import AsyncConnection

from ..connecting import cut
from ..leases import Lease, Leases
from ..settings import Settings


def now() -> float:
    """The monotonic clock of the event loop, in seconds."""
    return asyncio.get_running_loop().time()


class AsyncWatch:
    def __init__(self, settings: Settings, leases: Leases) -> None:
        self._settings = settings
        self._leases = leases
        self._at_work: dict[Lease, tuple[asyncio.Future[Any], AsyncConnection[Any]]] = {}

    @contextmanager
    def deadline(self, connection: AsyncConnection[Any], seconds: float) -> Iterator[None]:
        """Calls inside end in so many seconds, or fail with psycopg.OperationalError."""
        handle = asyncio.get_running_loop().call_later(seconds, cut, connection)
        try:
            yield
        finally:
            handle.cancel()

    @contextmanager
    def at_work(self, lease: Lease, task: "asyncio.Future[Any]", connection: AsyncConnection[Any]) -> Iterator[None]:
        """The handler's task works with this connection. If it does not end when told to, it is cancelled."""
        self._at_work[lease] = (task, connection)
        try:
            yield
        finally:
            self._at_work.pop(lease, None)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._settings.tick)
            for lease in self._leases.overdue(now(), self._settings.cancel_grace):
                # Once: its cleaning up is not to be interrupted.
                if (working := self._at_work.pop(lease, None)) is not None:
                    task, connection = working
                    cut(connection)
                    task.cancel()
