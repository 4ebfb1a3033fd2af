"""The task that renews the leases of all jobs in hand, every third of a lease."""

import asyncio

import psycopg

from ..hands import Hands
from ..outage import Backoff, Outage
from ..settings import Settings
from .line import AsyncLine
from .watch import now


class AsyncKeeper:
    def __init__(self, settings: Settings, hands: Hands, line: AsyncLine, outage: Outage) -> None:
        self._settings, self._hands, self._line, self._outage = settings, hands, line, outage
        self._backoff = Backoff(most=settings.lease / 10)

    async def run(self) -> None:
        delay = self._settings.lease / 3
        while True:
            await asyncio.sleep(delay)
            try:
                await self.renew()
                self._backoff.reset()
                delay = self._settings.lease / 3
            except (psycopg.Error, OSError) as error:
                self._outage.begins(error)
                delay = self._backoff.delay()

    async def renew(self) -> None:
        held = self._hands.held()
        if held:
            sent_at = now()
            call = self._settings.statements.extend_many([h.id for h in held], [h.token for h in held])
            self._hands.renewed(((id, state) for id, state in await self._line.call(call)), sent_at)
