"""The task that takes jobs for the free slots, and waits for more."""

import asyncio
from collections.abc import Callable, Sequence
from random import random
from typing import Any

import psycopg
from psycopg import AsyncConnection, Notify

from .. import schema as names
from ..connecting import hints
from ..hands import Hands
from ..outage import Backoff, Outage
from ..settings import Settings
from .line import AsyncLine
from .watch import now

Dispatch = Callable[[str, Sequence[Any], float], None]


class AsyncTaker:
    """`dispatch` gets the queue, a row of a job, and when its lease ends."""

    def __init__(self, settings: Settings, kinds: list[str], hands: Hands, dispatch: Dispatch, outage: Outage) -> None:
        self._settings, self._kinds, self._hands, self._dispatch = settings, kinds, hands, dispatch
        self._outage = outage
        self._backoff = Backoff()
        self._awake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hints = {names.hint(queue) for queue in settings.queues}

    async def opened(self, connection: AsyncConnection[Any]) -> None:
        """Listens on a new connection."""
        if self._settings.listen:
            connection.add_notify_handler(self._notified)
            await connection.execute(*self._settings.statements.listen)

    async def run(self, line: AsyncLine) -> None:
        while not self._stopping.is_set():
            # Hints from here on are news.
            self._awake.clear()
            try:
                await self._look(line)
                self._outage.ends()
                self._backoff.reset()
                await self._wait(line)
            except (psycopg.Error, OSError) as error:
                await line.close()
                self._outage.begins(error)
                await within(self._stopping, self._backoff.delay())
        await self._give_back(line)
        await line.close(before=self._settings.statements.unlisten if self._settings.listen else None)

    async def _look(self, line: AsyncLine) -> None:
        """Takes no more jobs than the free slots can begin at once."""
        settings = self._settings
        for queue in settings.queues:
            free = settings.concurrency - len(self._hands)
            if free <= 0 or self._stopping.is_set():
                return
            call = settings.statements.take(
                queue, settings.name, free, settings.lease, self._kinds, settings.content_types
            )
            sent_at = now()
            for row in await line.call(call):
                self._dispatch(queue, row, sent_at + settings.lease)

    async def _wait(self, line: AsyncLine) -> None:
        """Until a job has ended, a hint has come, or it is time to poll."""
        connection = line.connection if self._settings.listen else None
        arrived: list[BaseException] = []

        def readable() -> None:
            assert connection is not None
            try:
                found = hints(connection)
            except psycopg.Error as error:
                arrived.append(error)
                self._awake.set()
                return
            if any(hint in self._hints for hint in found):
                self._awake.set()

        loop = asyncio.get_running_loop()
        descriptor = None if connection is None else connection.fileno()
        if descriptor is not None:
            loop.add_reader(descriptor, readable)
        try:
            await within(self._awake, self._settings.poll_interval * (1 + 0.4 * random()))
        finally:
            if descriptor is not None:
                loop.remove_reader(descriptor)
        if arrived:
            raise arrived[0]

    def _notified(self, notification: Notify) -> None:
        # One that came with the answer to another statement.
        if notification.payload in self._hints:
            self._awake.set()

    def wake(self) -> None:
        """Lets it look again."""
        self._awake.set()

    def stop(self) -> None:
        """It takes no more, and gives back the jobs that are not begun."""
        self._stopping.set()
        self._awake.set()

    async def _give_back(self, line: AsyncLine) -> None:
        idle = self._hands.give_back()
        try:
            if idle:
                await line.call(self._settings.statements.release_many([h.id for h in idle], [h.token for h in idle]))
        except (psycopg.Error, OSError) as error:
            self._outage.begins(error)
        for hand in idle:
            self._hands.remove(hand)


async def within(event: asyncio.Event, seconds: float) -> bool:
    """Waits for an event, at most so long. Returns whether it was set."""
    try:
        await asyncio.wait_for(event.wait(), max(0.0, seconds))
    except asyncio.TimeoutError:
        return event.is_set()
    return True
