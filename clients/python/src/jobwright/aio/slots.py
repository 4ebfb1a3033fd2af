"""The tasks that run handlers: each job in a transaction that also ends it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from typing import Any, TypeAlias

import psycopg
from psycopg import AsyncConnection

from .. import ending
from ..connecting import broken, check_transaction
from ..errors import JobwrightError
from ..job import AsyncJob
from ..leases import Lease, Leases
from ..outage import Backoff, Outage
from ..settings import Settings
from ..statements import Call
from .line import execute
from .sessions import AsyncSessions
from .watch import AsyncWatch, now

logger = logging.getLogger("jobwright")

#: How long a handler whose worker is gone may clean up, in seconds.
LEAVING = 1.0

AsyncHandler: TypeAlias = Callable[[AsyncJob, AsyncConnection[Any]], Awaitable[Any]]


class AsyncSlots:
    """Each job has a task. `ended` is called after it."""

    def __init__(
        self,
        settings: Settings,
        handlers: Mapping[str, AsyncHandler],
        leases: Leases,
        sessions: AsyncSessions,
        watch: AsyncWatch,
        outage: Outage,
        ended: Callable[[], None],
    ) -> None:
        self._settings, self._handlers, self._leases, self._ended = settings, handlers, leases, ended
        self._sessions, self._watch, self._outage = sessions, watch, outage
        self.tasks: set[asyncio.Task[None]] = set()

    def put(self, lease: Lease, job: AsyncJob) -> None:
        """A job for a free slot. The worker never takes more jobs than there are free slots."""
        task = asyncio.get_running_loop().create_task(self._slot(lease, job), name=f"jobwright-{job.id}")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _slot(self, lease: Lease, job: AsyncJob) -> None:
        try:
            await self._run(lease, job)
        except Exception as error:
            # The lease ends, and the job runs again.
            logger.error("job %s (%s) can't be ended: %s", lease.id, lease.kind, ending.name(error))
        finally:
            self._leases.remove(lease)
            self._ended()

    async def _run(self, lease: Lease, job: AsyncJob) -> None:
        backoff = Backoff(most=1.0)
        while lease.may_begin(now()):
            connection: AsyncConnection[Any] | None = None
            try:
                connection = await self._sessions.acquire()
                await self._attempt(lease, job, connection)
            except Exception as error:
                # Only before the handler began: there was no connection, or one that was lost while it was idle.
                if lease.begun:
                    raise
                self._outage.begins(error)
                if connection is not None:
                    await connection.close()
                await asyncio.sleep(backoff.delay())
            finally:
                if connection is not None:
                    await self._sessions.give_back(connection)
            if lease.begun:
                return
        if not lease.given_back:
            await self._give_back(lease)

    async def _give_back(self, lease: Lease) -> None:
        """There was no connection for so long that its lease ended, or it was cancelled: it costs no attempt."""
        connection = await self._sessions.acquire()
        try:
            with self._watch.deadline(connection, self._settings.call_timeout):
                await execute(connection, self._settings.statements.release_many([lease.id], [lease.token]))
        finally:
            await self._sessions.give_back(connection)

    async def _attempt(self, lease: Lease, job: AsyncJob, connection: AsyncConnection[Any]) -> None:
        # A task of its own can be cancelled without ending the one that settles the job.
        work = asyncio.ensure_future(self._work(lease, job, connection))
        try:
            with self._watch.at_work(lease, work, connection):
                await asyncio.wait([work])
        finally:
            if not work.done():
                # This task is being cancelled. The connection is given back when the handler has left it.
                work.cancel()
                await asyncio.wait([work], timeout=LEAVING)
        error = asyncio.CancelledError() if work.cancelled() else work.exception()
        if error is not None:
            if not lease.begun:
                raise error
            await self._failed(lease, job, connection, error)

    async def _work(self, lease: Lease, job: AsyncJob, connection: AsyncConnection[Any]) -> None:
        with ExitStack() as until_committed:
            async with connection.transaction():
                if not self._leases.begin(lease, now()):
                    return
                try:
                    value = await self._handlers[job.kind](job, connection)
                except psycopg.Rollback as error:
                    # The transaction would end without an error, and without its job.
                    raise JobwrightError("the handler raised psycopg.Rollback: raise Later or Fatal") from error
                finally:
                    until_committed.enter_context(self._watch.deadline(connection, self._settings.call_timeout))
                await self._end(lease, connection, value)

    async def _end(self, lease: Lease, connection: AsyncConnection[Any], value: Any) -> None:
        settings = self._settings
        check_transaction(connection)
        call = ending.in_transaction(settings.statements, self._leases, lease, value, settings.keep, now())
        try:
            await execute(connection, call)
            lease.ending = True
        except psycopg.Error as error:
            ending.note(self._leases, lease, error, now())
            raise

    async def _failed(
        self, lease: Lease, job: AsyncJob, connection: AsyncConnection[Any], error: BaseException
    ) -> None:
        """The transaction was rolled back, or its connection is lost."""
        is_broken = broken(connection)
        call = ending.after_error(self._settings.statements, lease, error, is_broken)
        line = ending.line(lease, error, job.attempt, job.max_attempts, is_broken)
        try:
            if call is not None and not await self._settle(connection, is_broken, call) and lease.ending:
                line = ending.late(lease, error)
        finally:
            if line is not None:
                logger.warning("%s", line, exc_info=error if logger.isEnabledFor(logging.DEBUG) else None)

    async def _settle(self, connection: AsyncConnection[Any], is_broken: bool, call: Call) -> bool:
        """Returns whether the job was still this worker's."""
        other = await self._sessions.acquire() if is_broken else connection
        try:
            with self._watch.deadline(other, self._settings.call_timeout):
                return any(row[0] for row in await execute(other, call))
        finally:
            if other is not connection:
                await self._sessions.give_back(other)
