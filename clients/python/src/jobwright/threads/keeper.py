"""A thread that renews the leases of all jobs in hand, every third of a lease."""

import threading
import time

import psycopg

from ..hands import Hands
from ..outage import Backoff, Outage
from ..settings import Settings
from .line import Line


class Keeper:
    def __init__(self, settings: Settings, hands: Hands, line: Line, outage: Outage) -> None:
        self._settings, self._hands, self._line, self._outage = settings, hands, line, outage
        self._closing = threading.Event()
        self._backoff = Backoff(most=settings.lease / 10)

    def run(self) -> None:
        delay = self._settings.lease / 3
        while not self._closing.wait(delay):
            try:
                self.renew()
                self._backoff.reset()
                delay = self._settings.lease / 3
            except (psycopg.Error, OSError) as error:
                self._outage.begins(error)
                delay = self._backoff.delay()
        self._line.close()

    def renew(self) -> None:
        held = self._hands.held()
        if held:
            sent_at = time.monotonic()
            call = self._settings.statements.extend_many([h.id for h in held], [h.token for h in held])
            self._hands.renewed(((id, state) for id, state in self._line.call(call)), sent_at)

    def close(self) -> None:
        self._closing.set()
