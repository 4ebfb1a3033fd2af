"""The tasks that run handlers: each job in a transaction that also ends it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from typing import Any, TypeAlias

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import tuple_row

from .. import ending
from ..connecting import broken
from ..hands import Hand, Hands
from ..job import AsyncJob
from ..outage import Backoff, Outage
from ..settings import Settings
from ..statements import Call
from .sessions import AsyncSessions
from .watch import AsyncWatch, now

logger = logging.getLogger("jobwright")

AsyncHandler: TypeAlias = Callable[[AsyncJob, AsyncConnection[Any]], Awaitable[Any]]


class AsyncSlots:
    """Each job has a task. `ended` is called after it."""

    def __init__(
        self,
        settings: Settings,
        handlers: Mapping[str, AsyncHandler],
        hands: Hands,
        sessions: AsyncSessions,
        watch: AsyncWatch,
        outage: Outage,
        ended: Callable[[], None],
    ) -> None:
        self._settings, self._handlers, self._hands, self._ended = settings, handlers, hands, ended
        self._sessions, self._watch, self._outage = sessions, watch, outage
        self.tasks: set[asyncio.Task[None]] = set()

    def put(self, hand: Hand, job: AsyncJob) -> None:
        """A job for a free slot. No more jobs are in hand than there are slots."""
        task = asyncio.get_running_loop().create_task(self._slot(hand, job), name=f"jobwright-{job.id}")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _slot(self, hand: Hand, job: AsyncJob) -> None:
        try:
            await self._run(hand, job)
        except Exception as error:
            # The lease ends, and the job runs again.
            logger.error("job %s (%s) can't be ended: %s", hand.id, hand.kind, ending.name(error))
        finally:
            self._hands.remove(hand)
            self._ended()

    async def _run(self, hand: Hand, job: AsyncJob) -> None:
        backoff = Backoff(most=1.0)
        while not hand.given_back and not hand.is_over(now()):
            connection: AsyncConnection[Any] | None = None
            try:
                connection = await self._sessions.acquire()
                await self._attempt(hand, job, connection)
            except (psycopg.Error, OSError) as error:
                # Only before the handler began: there was no connection, or one that was lost while it was idle.
                if hand.begun:
                    raise
                self._outage.begins(error)
                if connection is not None:
                    await connection.close()
                await asyncio.sleep(backoff.delay())
            finally:
                if connection is not None:
                    await self._sessions.give_back(connection)
            if hand.begun:
                return

    async def _attempt(self, hand: Hand, job: AsyncJob, connection: AsyncConnection[Any]) -> None:
        # A task of its own can be cancelled without ending the one that settles the job.
        work = asyncio.ensure_future(self._work(hand, job, connection))
        try:
            with self._watch.at_work(hand, work, connection):
                await asyncio.wait([work])
        finally:
            if not work.done():
                work.cancel()
        error = asyncio.CancelledError() if work.cancelled() else work.exception()
        if error is not None:
            if not hand.begun:
                raise error
            await self._failed(hand, job, connection, error)

    async def _work(self, hand: Hand, job: AsyncJob, connection: AsyncConnection[Any]) -> None:
        with ExitStack() as until_committed:
            async with connection.transaction():
                if not self._hands.begin(hand):
                    return
                try:
                    value = await self._handlers[job.kind](job, connection)
                finally:
                    until_committed.enter_context(self._watch.deadline(connection))
                await self._end(hand, connection, value)

    async def _end(self, hand: Hand, connection: AsyncConnection[Any], value: Any) -> None:
        settings = self._settings
        call = ending.in_transaction(settings.statements, self._hands, hand, value, settings.keep, now())
        try:
            await self._execute(connection, call)
        except psycopg.Error as error:
            ending.note(self._hands, hand, error, now())
            raise

    async def _failed(self, hand: Hand, job: AsyncJob, connection: AsyncConnection[Any], error: BaseException) -> None:
        """The transaction was rolled back, or its connection is lost."""
        is_broken = broken(connection)
        call = ending.after_error(self._settings.statements, hand, error, is_broken)
        line = ending.line(hand, error, job.attempt, job.max_attempts)
        if line is not None:
            logger.warning("%s", line, exc_info=error if logger.isEnabledFor(logging.DEBUG) else None)
        if call is None:
            return
        other = await self._sessions.acquire() if is_broken else connection
        try:
            with self._watch.deadline(other):
                await self._execute(other, call)
        finally:
            if other is not connection:
                await self._sessions.give_back(other)

    async def _execute(self, connection: AsyncConnection[Any], call: Call) -> None:
        async with connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(*call)
