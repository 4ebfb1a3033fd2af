"""The worker: its parts put together, started and stopped."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import psycopg

from .. import ending
from ..connecting import check_pool
from ..durations import Duration, seconds
from ..errors import JobCancelled, JobLost
from ..job import Job, details
from ..leases import Lease, Leases, State
from ..outage import Outage
from ..settings import Options, settings
from .keeper import Keeper
from .line import Line
from .sessions import Database, Sessions
from .signals import Signals
from .slots import Handler, Slots
from .taker import Taker
from .watch import Watch

if TYPE_CHECKING:
    from typing_extensions import Unpack

logger = logging.getLogger("jobwright")


class Worker:
    """Runs the jobs of a queue in threads. A job's writes, messages and end are one commit.

    `database`: a URL, a function that connects, or a `psycopg_pool.ConnectionPool`; a worker uses up to
    `concurrency` + 3 connections. Further arguments, with times in seconds or as a timedelta:

    - `queue` ("default"): its name, or several, the first of which is preferred.
    - `concurrency` (4): how many jobs run at the same time.
    - `lease` (60 s): how long after the death of this process its jobs wait. It is renewed while a handler runs.
    - `keep` (None): how long results of handlers can be read. Without it they only go to those who asked for them.
    - `poll_interval` (5 s), `listen` (True): how it learns of new jobs. Behind PgBouncer in transaction mode use
      `listen=False`; then it prepares no statements, either.
    - `cancel_grace` (5 s): how long a handler may go on that was told to end (`Job.cancelled`). Then its connection
      is closed.
    - `call_timeout` (30 s): the longest time for a call of the worker itself, and for the end of a job with its commit.
    - `content_types`: formats of sealed or compressed content that the handlers can read.
    - `name` (host:pid): for people. `schema`: that of JOBWRIGHT_DATABASE_SCHEMA, or else `jobwright`.

    Raises ValueError for a setting that can't be used.
    """

    def __init__(
        self, database: Database | None = None, *, sessions: Sessions | None = None, **options: "Unpack[Options]"
    ) -> None:
        self._settings = settings(**options)
        if (database is None) == (sessions is None):
            raise ValueError("a worker needs a database: a URL, a function that connects, or a pool")
        timeout = self._settings.call_timeout
        own = database if sessions is None else sessions.connect
        assert own is not None
        if not isinstance(own, str):
            check_pool(own, self._settings.concurrency + 3)
        prepares = self._settings.listen
        self._own = Sessions(own, 0, timeout, prepares)
        self._sessions = sessions or Sessions(own, self._settings.concurrency, timeout, prepares)
        self._handlers: dict[str, Handler] = {}
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._stopped = False
        self._signals: Signals | None = None

    @property
    def name(self) -> str:
        """The name under which `jobwright status` shows it."""
        return self._settings.name

    def handle(self, kind: str, handler: Handler) -> None:
        """The handler of a kind of jobs. It gets the job, and the connection in whose transaction the job ends."""
        if self._threads:
            raise RuntimeError("the worker has started: give it its handlers before")
        if kind in self._handlers:
            raise ValueError(f"the kind {kind!r} has a handler already")
        self._handlers[kind] = handler

    def handler(self, kind: str) -> Callable[[Handler], Handler]:
        """A decorator for `handle`."""

        def decorate(handler: Handler) -> Handler:
            self.handle(kind, handler)
            return handler

        return decorate

    def start(self) -> None:
        """Starts its threads, and returns. The database need not be there yet."""
        if self._threads or self._stopped:
            raise RuntimeError("a worker is started once")
        if not self._handlers:
            raise ValueError("the worker has no handlers: give it some, by `handle` or `@worker.handler(kind)`")
        self._leases = Leases(self._settings.lease)
        self._outage = Outage(self._settings.name)
        self._watch = Watch(self._settings, self._leases)
        self._taker = Taker(self._settings, sorted(self._handlers), self._leases, self._dispatch, self._outage)
        self._slots = Slots(
            self._settings,
            self._handlers,
            self._leases,
            self._sessions,
            self._watch,
            self._outage,
            self._taker.wake,
        )
        timeout = self._settings.call_timeout
        keeping = self._line(self._settings.renewal_timeout)
        self._keeper = Keeper(self._settings, self._leases, keeping, self._outage)
        self._reports = self._line(timeout)
        taking = self._line(timeout, self._taker.opened)
        bodies = [self._watch.run, self._keeper.run, lambda: self._taker.run(taking)]
        names = ["watch", "keeper", "taker"]
        for number in range(self._settings.concurrency):
            bodies.append(self._slots.run)
            names.append(f"slot-{number + 1}")
        # Daemons: a handler that never ends does not keep the process from ending.
        self._threads = [
            threading.Thread(target=body, name=f"jobwright-{name}", daemon=True)
            for body, name in zip(bodies, names, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self, grace: Duration = 30.0) -> bool:
        """Takes no more, gives back the jobs that are not begun, and waits `grace` seconds for the handlers.

        Then it tells them to end. Those that end within `cancel_grace` are given back at no attempt; the leases of the
        others end. Returns whether all have ended.
        """
        limit = time.monotonic() + seconds(grace, "grace")
        with self._lock:
            if self._stopped or not self._threads:
                self._stopped = True
                return True
            self._stopped = True
        self._taker.stop()
        # What it is just taking is known before anything else ends.
        self._threads[2].join(max(2.0, limit - time.monotonic()))
        empty = False
        while not empty and not self._is_hurried() and (left := limit - time.monotonic()) > 0:
            empty = self._leases.wait_empty(min(left, 0.5))
        if not empty:
            self._leases.stop(time.monotonic())
            # Their connections are closed after `cancel_grace`; ends that follow take a moment.
            empty = self._leases.wait_empty(self._settings.cancel_grace + self._settings.tick + 2.0)
        if not empty:
            logger.warning("worker %s stops without %d jobs that did not end", self._settings.name, len(self._leases))
        self._close()
        return empty

    def run(self, grace: Duration = 30.0) -> bool:
        """Runs until SIGTERM or SIGINT, then stops; a second signal ends the wait. For the main thread of a program."""
        with Signals() as signals:
            self._signals = signals
            self.start()
            while not signals.wait(1.0):
                pass
            return self.stop(grace)

    def __enter__(self) -> "Worker":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _is_hurried(self) -> bool:
        return self._signals is not None and self._signals.count > 1

    def _line(self, timeout: float, opened: Callable[[psycopg.Connection[Any]], None] | None = None) -> Line:
        return Line(self._own, self._watch, timeout, opened)

    def _dispatch(self, queue: str, row: Sequence[Any], ends_at: float) -> None:
        cancelled = threading.Event()
        lease = Lease(row[0], row[1], row[2], ends_at, cancelled.set)

        def progress(percent: int | None, note: str | None, checkpoint: Any) -> None:
            self._progress(lease, percent, note, checkpoint)

        job = Job(**details(queue, row), cancelled=cancelled, _progress=progress)
        self._leases.add(lease, time.monotonic())
        self._slots.put(lease, job)

    def _progress(self, lease: Lease, percent: int | None, note: str | None, checkpoint: Any) -> None:
        call = self._settings.statements.progress(lease.id, lease.token, percent, note, checkpoint)
        try:
            self._reports.call(call)
        except psycopg.Error as error:
            ending.note(self._leases, lease, error, time.monotonic())
            if lease.state is State.CANCELLED:
                raise JobCancelled(lease.id) from error
            if lease.state is State.LOST:
                raise JobLost(lease.id) from error
            if self._reports.connection is not None:
                raise
            # The connection was lost, maybe long ago: once more, on another.
            self._reports.call(call)

    def _close(self) -> None:
        self._slots.close()
        self._keeper.close()
        watch, keeper, taker, *slots = self._threads
        self._join([keeper, taker], self._settings.call_timeout)
        self._join(slots, 2.0)
        self._watch.close()
        self._join([watch], 2.0)
        self._reports.close()
        self._sessions.close()
        self._own.close()
        if not taker.is_alive():
            self._taker.close()

    def _join(self, threads: list[threading.Thread], timeout: float) -> None:
        limit = time.monotonic() + timeout
        for thread in threads:
            thread.join(max(0.0, limit - time.monotonic()))
