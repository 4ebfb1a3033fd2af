"""The task that renews the leases of all jobs that the worker holds, every third of a lease."""

import asyncio

from ..leases import Leases
from ..outage import Backoff, Outage
from ..settings import Settings
from .line import AsyncLine
from .watch import now


class AsyncKeeper:
    def __init__(self, settings: Settings, leases: Leases, line: AsyncLine, outage: Outage) -> None:
        self._settings, self._leases, self._line, self._outage = settings, leases, line, outage
        self._backoff = Backoff(most=settings.lease / 10)

    async def run(self) -> None:
        delay = self._settings.lease / 3
        while True:
            await asyncio.sleep(delay)
            try:
                delay = self._settings.lease / (10 if await self.renew() else 3)
                self._backoff.reset()
            except Exception as error:
                # Any: this task must go on, or all jobs are lost.
                self._outage.begins(error)
                delay = self._backoff.delay()

    async def renew(self) -> bool:
        """Returns whether to ask again soon."""
        held = self._leases.held()
        if not held:
            return False
        call = self._settings.statements.extend_many([h.id for h in held], [h.token for h in held])
        rows = [(id, state) for id, state in await self._line.call(call)]
        return self._leases.renewed(held, rows, self._line.sent_at, now())
