"""A thread that looks at deadlines. It does no I/O of its own, so nothing can hold it up."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import Connection

from ..connecting import cut
from ..leases import Lease, Leases
from ..settings import Settings


class Watch:
    """Tells handlers that their leases have ended, and ends connections that are past a deadline."""

    def __init__(self, settings: Settings, leases: Leases) -> None:
        self._settings = settings
        self._leases = leases
        self._lock = threading.Lock()
        self._deadlines: dict[object, tuple[float, Connection[Any]]] = {}
        self._at_work: dict[Lease, Connection[Any]] = {}
        self._closing = threading.Event()

    @contextmanager
    def deadline(self, connection: Connection[Any], seconds: float) -> Iterator[None]:
        """Calls inside end in so many seconds, or fail with psycopg.OperationalError."""
        key = object()
        with self._lock:
            self._deadlines[key] = (time.monotonic() + seconds, connection)
        try:
            yield
        finally:
            with self._lock:
                del self._deadlines[key]

    @contextmanager
    def at_work(self, lease: Lease, connection: Connection[Any]) -> Iterator[None]:
        """The handler works with this connection. If it does not end when told to, the connection ends."""
        with self._lock:
            self._at_work[lease] = connection
        try:
            yield
        finally:
            with self._lock:
                self._at_work.pop(lease, None)

    def run(self) -> None:
        while not self._closing.wait(self._settings.tick):
            self.look()

    def look(self) -> None:
        now = time.monotonic()
        overdue = self._leases.overdue(now, self._settings.cancel_grace)
        # Under the lock, so that the connection is still that of the call, and not closed meanwhile.
        with self._lock:
            for key, (ends, connection) in list(self._deadlines.items()):
                if ends <= now:
                    cut(connection)
                    self._deadlines[key] = (float("inf"), connection)
            for lease in overdue:
                if (working := self._at_work.pop(lease, None)) is not None:
                    cut(working)

    def close(self) -> None:
        self._closing.set()
