"""A thread that renews the leases of all jobs that the worker holds, every third of a lease."""

import threading
import time

from ..leases import Leases
from ..outage import Backoff, Outage
from ..settings import Settings
from .line import Line


class Keeper:
    def __init__(self, settings: Settings, leases: Leases, line: Line, outage: Outage) -> None:
        self._settings, self._leases, self._line, self._outage = settings, leases, line, outage
        self._closing = threading.Event()
        self._backoff = Backoff(most=settings.lease / 10)

    def run(self) -> None:
        delay = self._settings.lease / 3
        while not self._closing.wait(delay):
            try:
                delay = self._settings.lease / (10 if self.renew() else 3)
                self._backoff.reset()
            except Exception as error:
                # Any: this thread must go on, or all jobs are lost.
                self._outage.begins(error)
                delay = self._backoff.delay()
        self._line.close()

    def renew(self) -> bool:
        """Returns whether to ask again soon."""
        held = self._leases.held()
        if not held:
            return False
        call = self._settings.statements.extend_many([h.id for h in held], [h.token for h in held])
        rows = [(id, state) for id, state in self._line.call(call)]
        return self._leases.renewed(held, rows, self._line.sent_at, time.monotonic())

    def close(self) -> None:
        self._closing.set()
