"""The worker: its parts put together, started and stopped."""

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import psycopg

from .. import ending
from ..connecting import check_pool
from ..durations import Duration, seconds
from ..errors import JobCancelled, JobLost
from ..job import AsyncJob, details
from ..leases import Lease, Leases, State
from ..outage import Outage
from ..settings import Options, settings
from .keeper import AsyncKeeper
from .line import AsyncLine
from .sessions import AsyncDatabase, AsyncSessions
from .slots import AsyncHandler, AsyncSlots
from .taker import AsyncTaker, within
from .watch import AsyncWatch, now

if TYPE_CHECKING:
    from typing_extensions import Unpack

logger = logging.getLogger("jobwright")


class AsyncWorker:
    """Runs the jobs of a queue as tasks of asyncio. A job's writes, messages and end are one commit.

    It takes the arguments of `Worker`. `database`: a URL, a coroutine function that connects, or a
    `psycopg_pool.AsyncConnectionPool`. A handler that blocks the event loop keeps leases from being renewed.
    """

    def __init__(self, database: AsyncDatabase, **options: "Unpack[Options]") -> None:
        self._settings = settings(**options)
        timeout = self._settings.call_timeout
        if not isinstance(database, str):
            check_pool(database, self._settings.concurrency + 3)
        prepares = self._settings.listen
        self._own = AsyncSessions(database, 0, timeout, prepares)
        self._sessions = AsyncSessions(database, self._settings.concurrency, timeout, prepares)
        self._handlers: dict[str, AsyncHandler] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = False

    @property
    def name(self) -> str:
        """The name under which `jobwright status` shows it."""
        return self._settings.name

    def handle(self, kind: str, handler: AsyncHandler) -> None:
        """The handler of a kind of jobs. It gets the job, and the connection in whose transaction the job ends."""
        if self._tasks:
            raise RuntimeError("the worker has started: give it its handlers before")
        if kind in self._handlers:
            raise ValueError(f"the kind {kind!r} has a handler already")
        self._handlers[kind] = handler

    def handler(self, kind: str) -> Callable[[AsyncHandler], AsyncHandler]:
        """A decorator for `handle`."""

        def decorate(handler: AsyncHandler) -> AsyncHandler:
            self.handle(kind, handler)
            return handler

        return decorate

    async def start(self) -> None:
        """Starts its tasks, and returns. The database need not be there yet."""
        if self._tasks or self._stopped:
            raise RuntimeError("a worker is started once")
        if not self._handlers:
            raise ValueError("the worker has no handlers: give it some, by `handle` or `@worker.handler(kind)`")
        self._hurry = asyncio.Event()
        self._emptied = asyncio.Event()
        self._leases = Leases(self._settings.lease)
        self._outage = Outage(self._settings.name)
        self._watch = AsyncWatch(self._settings, self._leases)
        self._taker = AsyncTaker(self._settings, sorted(self._handlers), self._leases, self._dispatch, self._outage)
        self._slots = AsyncSlots(
            self._settings,
            self._handlers,
            self._leases,
            self._sessions,
            self._watch,
            self._outage,
            self._ended,
        )
        timeout = self._settings.call_timeout
        keeping = AsyncLine(self._own, self._watch, self._settings.renewal_timeout)
        self._reports = AsyncLine(self._own, self._watch, timeout)
        keeper = AsyncKeeper(self._settings, self._leases, keeping, self._outage)
        taking = AsyncLine(self._own, self._watch, timeout, self._taker.opened)
        self._lines = [keeping, self._reports, taking]
        create = asyncio.get_running_loop().create_task
        self._tasks = [create(self._watch.run()), create(keeper.run()), create(self._taker.run(taking))]

    async def stop(self, grace: Duration = 30.0) -> bool:
        """Takes no more, gives back the jobs that are not begun, and waits `grace` seconds for the handlers.

        Then it tells them to end. Those that do are given back at no attempt; after `cancel_grace` their tasks are
        cancelled. Returns whether all have ended.
        """
        limit = now() + seconds(grace, "grace")
        if self._stopped or not self._tasks:
            self._stopped = True
            return True
        self._stopped = True
        self._taker.stop()
        try:
            # What it is just taking is known before anything else ends.
            await asyncio.wait([self._tasks[2]], timeout=max(2.0, limit - now()))
            while len(self._leases) and not self._hurry.is_set() and (left := limit - now()) > 0:
                await self._wait_empty(min(left, 0.5))
            if len(self._leases):
                self._leases.stop(now())
                await self._wait_empty(self._settings.cancel_grace + self._settings.tick + 2.0)
            left_over = len(self._leases)
            if left_over:
                logger.warning("worker %s stops without %d jobs that did not end", self._settings.name, left_over)
        finally:
            # Also if this wait is cancelled: then the handlers are, and their leases end.
            await self._close()
        return not left_over

    async def run(self, grace: Duration = 30.0) -> bool:
        """Runs until SIGTERM or SIGINT, then stops; a second signal ends the wait."""
        loop = asyncio.get_running_loop()
        asked = asyncio.Event()
        await self.start()

        def on_signal() -> None:
            (self._hurry if asked.is_set() else asked).set()

        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, on_signal)
        try:
            await asked.wait()
            return await self.stop(grace)
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)
            await self.stop(0)

    async def __aenter__(self) -> "AsyncWorker":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _ended(self) -> None:
        self._emptied.set()
        self._taker.wake()

    async def _wait_empty(self, timeout: float) -> None:
        limit = now() + timeout
        while len(self._leases) and (left := limit - now()) > 0:
            self._emptied.clear()
            await within(self._emptied, left)

    def _dispatch(self, queue: str, row: Sequence[Any], ends_at: float) -> None:
        cancelled = asyncio.Event()
        lease = Lease(row[0], row[1], row[2], ends_at, cancelled.set)

        async def progress(percent: int | None, note: str | None, checkpoint: Any) -> None:
            await self._progress(lease, percent, note, checkpoint)

        job = AsyncJob(**details(queue, row), cancelled=cancelled, _progress=progress)
        self._leases.add(lease, now())
        self._slots.put(lease, job)

    async def _progress(self, lease: Lease, percent: int | None, note: str | None, checkpoint: Any) -> None:
        call = self._settings.statements.progress(lease.id, lease.token, percent, note, checkpoint)
        try:
            await self._reports.call(call)
        except psycopg.Error as error:
            ending.note(self._leases, lease, error, now())
            if lease.state is State.CANCELLED:
                raise JobCancelled(lease.id) from error
            if lease.state is State.LOST:
                raise JobLost(lease.id) from error
            if self._reports.connection is not None:
                raise
            # The connection was lost, maybe long ago: once more, on another.
            await self._reports.call(call)

    async def _close(self) -> None:
        for task in [*self._tasks, *self._slots.tasks]:
            task.cancel()
        await asyncio.wait([*self._tasks, *self._slots.tasks], timeout=2.0)
        for line in self._lines:
            await line.close()
        await self._sessions.close()
        await self._own.close()
