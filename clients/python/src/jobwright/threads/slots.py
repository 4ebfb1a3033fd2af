"""The threads that run handlers: each job in a transaction that also ends it."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

import psycopg
from psycopg import Connection

from .. import ending
from ..connecting import broken
from ..errors import JobwrightError
from ..job import Job
from ..leases import Lease, Leases
from ..outage import Backoff, Outage
from ..settings import Settings
from ..statements import Call
from .line import execute
from .sessions import Sessions
from .watch import Watch

logger = logging.getLogger("jobwright")

Handler: TypeAlias = Callable[[Job, Connection[Any]], Any]


class Slots:
    """As many threads as jobs may run at the same time. `ended` is called after each job."""

    def __init__(
        self,
        settings: Settings,
        handlers: Mapping[str, Handler],
        leases: Leases,
        sessions: Sessions,
        watch: Watch,
        outage: Outage,
        ended: Callable[[], None],
    ) -> None:
        self._settings, self._handlers, self._leases, self._ended = settings, handlers, leases, ended
        self._sessions, self._watch, self._outage = sessions, watch, outage
        self._waiting: SimpleQueue[tuple[Lease, Job] | None] = SimpleQueue()
        self._closing = threading.Event()

    def put(self, lease: Lease, job: Job) -> None:
        """A job for a free slot. The worker never takes more jobs than there are free slots."""
        self._waiting.put((lease, job))

    def run(self) -> None:
        """The body of each thread."""
        while not self._closing.is_set():
            try:
                item = self._waiting.get(timeout=1.0)
            except Empty:
                continue
            if item is None:
                break
            lease, job = item
            try:
                self._run(lease, job)
            except Exception as error:
                # The lease ends, and the job runs again.
                logger.error("job %s (%s) can't be ended: %s", lease.id, lease.kind, ending.name(error))
            finally:
                self._leases.remove(lease)
                self._ended()
        self._sessions.thread_ends()

    def close(self) -> None:
        self._closing.set()
        for _ in range(self._settings.concurrency):
            self._waiting.put(None)

    def _run(self, lease: Lease, job: Job) -> None:
        backoff = Backoff(most=1.0)
        while lease.may_begin(time.monotonic()):
            connection: Connection[Any] | None = None
            try:
                connection = self._sessions.acquire()
                self._attempt(lease, job, connection)
            except Exception as error:
                # Only before the handler began: there was no connection, or one that was lost while it was idle.
                if lease.begun:
                    raise
                self._outage.begins(error)
                if connection is not None:
                    connection.close()
                self._closing.wait(backoff.delay())
            finally:
                if connection is not None:
                    self._sessions.give_back(connection)
            if lease.begun:
                return
        if not lease.given_back:
            self._give_back(lease)

    def _give_back(self, lease: Lease) -> None:
        """There was no connection for so long that its lease ended, or it was cancelled: it costs no attempt."""
        connection = self._sessions.acquire()
        try:
            with self._watch.deadline(connection, self._settings.call_timeout):
                execute(connection, self._settings.statements.release_many([lease.id], [lease.token]))
        finally:
            self._sessions.give_back(connection)

    def _attempt(self, lease: Lease, job: Job, connection: Connection[Any]) -> None:
        try:
            with self._watch.at_work(lease, connection), ExitStack() as until_committed:
                with self._sessions.transaction(connection):
                    if not self._leases.begin(lease, time.monotonic()):
                        return
                    try:
                        value = self._handlers[job.kind](job, connection)
                    except psycopg.Rollback as error:
                        # The transaction would end without an error, and without its job.
                        raise JobwrightError("the handler raised psycopg.Rollback: raise Later or Fatal") from error
                    finally:
                        until_committed.enter_context(self._watch.deadline(connection, self._settings.call_timeout))
                    self._end(lease, connection, value)
        except BaseException as error:
            if not lease.begun:
                raise
            self._failed(lease, job, connection, error)

    def _end(self, lease: Lease, connection: Connection[Any], value: Any) -> None:
        settings = self._settings
        self._sessions.check(connection)
        call = ending.in_transaction(settings.statements, self._leases, lease, value, settings.keep, time.monotonic())
        try:
            execute(connection, call)
            lease.ending = True
        except psycopg.Error as error:
            ending.note(self._leases, lease, error, time.monotonic())
            raise

    def _failed(self, lease: Lease, job: Job, connection: Connection[Any], error: BaseException) -> None:
        """The transaction was rolled back, or its connection is lost."""
        is_broken = broken(connection)
        call = ending.after_error(self._settings.statements, lease, error, is_broken)
        line = ending.line(lease, error, job.attempt, job.max_attempts, is_broken)
        try:
            if call is not None and not self._settle(connection, is_broken, call) and lease.ending:
                line = ending.late(lease, error)
        finally:
            if line is not None:
                logger.warning("%s", line, exc_info=error if logger.isEnabledFor(logging.DEBUG) else None)

    def _settle(self, connection: Connection[Any], is_broken: bool, call: Call) -> bool:
        """Returns whether the job was still this worker's."""
        other = self._sessions.acquire() if is_broken else connection
        try:
            with self._watch.deadline(other, self._settings.call_timeout):
                return any(row[0] for row in execute(other, call))
        finally:
            if other is not connection:
                self._sessions.give_back(other)
