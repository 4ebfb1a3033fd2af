"""The task that takes jobs for the free slots, and waits for more."""

import asyncio
from collections.abc import Callable, Sequence
from random import random
from typing import Any

import psycopg
from psycopg import AsyncConnection, Notify

from .. import ending
from .. import schema as names
from ..connecting import hints
from ..leases import Leases
from ..outage import Backoff, Outage
from ..pace import Cause, Pace
from ..settings import Settings
from ..statements import Call
from .line import AsyncLine

Dispatch = Callable[[str, Sequence[Any], float], None]


class AsyncTaker:
    """`dispatch` gets the queue, a row of a job, and when its lease ends.

    It raises ValueError or RecursionError if the content of the job can't be read.
    """

    def __init__(
        self, settings: Settings, kinds: list[str], leases: Leases, dispatch: Dispatch, outage: Outage
    ) -> None:
        self._settings, self._kinds, self._leases, self._dispatch = settings, kinds, leases, dispatch
        self._outage = outage
        self._backoff = Backoff()
        self._pace = Pace(settings.poll_interval)
        self._hinted = False
        self._awake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hints = {hint for queue in settings.queues for hint in names.hints(queue)}

    async def opened(self, connection: AsyncConnection[Any]) -> None:
        """Listens on a new connection."""
        if self._settings.listen:
            connection.add_notify_handler(self._notified)
            await connection.execute(*self._settings.statements.listen)

    async def run(self, line: AsyncLine) -> None:
        cause = Cause.POLL
        while not self._stopping.is_set():
            # Hints from here on are news.
            self._awake.clear()
            self._hinted = False
            try:
                if self._free() > 0:
                    self._pace.looked(cause, await self._look(line))
                    self._outage.ends()
                    self._backoff.reset()
                cause = await self._wait(line)
            except Exception as error:
                # Any: this task must go on, or the worker does nothing more.
                cause = Cause.POLL
                await line.close()
                self._outage.begins(error)
                await within(self._stopping, self._backoff.delay())
        await self._give_back(line)
        if line.connection is not None and self._settings.listen:
            line.connection.remove_notify_handler(self._notified)  # It may be of a pool.
        await line.close(before=self._settings.statements.unlisten if self._settings.listen else None)

    def _free(self) -> int:
        return self._settings.concurrency - len(self._leases)

    async def _look(self, line: AsyncLine) -> bool:
        """Takes no more jobs than the free slots can begin at once. Returns whether there were any."""
        settings = self._settings
        has_found = False
        for queue in settings.queues:
            free = self._free()
            if free <= 0 or self._stopping.is_set():
                break
            call = settings.statements.take(
                queue, settings.name, free, settings.lease, self._kinds, settings.content_types
            )
            unreadable: list[Call] = []
            for row in await line.call(call):
                has_found = True
                try:
                    self._dispatch(queue, row, line.sent_at + settings.lease)
                except (ValueError, RecursionError) as error:
                    unreadable.append(ending.of_unreadable(settings.statements, row, error))
            for fail in unreadable:
                await line.call(fail)
        return has_found

    async def _wait(self, line: AsyncLine) -> Cause:
        """Until a job has ended, a hint has come, or it is time to look. Returns the cause of the look."""
        poll_in = self._settings.poll_interval * (1 + 0.4 * random())
        left, cause = self._pace.next(poll_in, self._free() <= 0)
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
                self._hinted = True
                self._awake.set()

        loop = asyncio.get_running_loop()
        descriptor = None if connection is None else connection.fileno()
        if descriptor is not None:
            loop.add_reader(descriptor, readable)
        try:
            if await within(self._awake, left):
                cause = Cause.HINT if self._hinted else Cause.END
        finally:
            if descriptor is not None:
                loop.remove_reader(descriptor)
        if arrived:
            raise arrived[0]
        return cause

    def _notified(self, notification: Notify) -> None:
        # One that came with the answer to another statement.
        if notification.payload in self._hints:
            self._hinted = True
            self._awake.set()

    def wake(self) -> None:
        """Lets it look again."""
        self._awake.set()

    def stop(self) -> None:
        """It takes no more, and gives back the jobs that are not begun."""
        self._stopping.set()
        self._awake.set()

    async def _give_back(self, line: AsyncLine) -> None:
        idle = self._leases.give_back()
        try:
            if idle:
                await line.call(self._settings.statements.release_many([h.id for h in idle], [h.token for h in idle]))
        except Exception as error:
            self._outage.begins(error)
        for lease in idle:
            self._leases.remove(lease)


async def within(event: asyncio.Event, seconds: float) -> bool:
    """Waits for an event, at most so long. Returns whether it was set."""
    try:
        await asyncio.wait_for(event.wait(), max(0.0, seconds))
    except asyncio.TimeoutError:
        return event.is_set()
    return True
