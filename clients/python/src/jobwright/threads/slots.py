"""The threads that run handlers: each job in a transaction that also ends it."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from queue import Empty, Full, Queue
from typing import Any, TypeAlias

import psycopg
from psycopg import Connection
from psycopg.rows import tuple_row

from .. import ending
from ..connecting import broken
from ..hands import Hand, Hands
from ..job import Job
from ..outage import Backoff, Outage
from ..settings import Settings
from ..statements import Call
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
        hands: Hands,
        sessions: Sessions,
        watch: Watch,
        outage: Outage,
        ended: Callable[[], None],
    ) -> None:
        self._settings, self._handlers, self._hands, self._ended = settings, handlers, hands, ended
        self._sessions, self._watch, self._outage = sessions, watch, outage
        self._waiting: Queue[tuple[Hand, Job] | None] = Queue(settings.concurrency)
        self._closing = threading.Event()

    def put(self, hand: Hand, job: Job) -> None:
        """A job for a free slot. There is always room, because no more jobs are in hand than there are slots."""
        self._waiting.put_nowait((hand, job))

    def run(self) -> None:
        """The body of each thread."""
        while not self._closing.is_set():
            try:
                item = self._waiting.get(timeout=1.0)
            except Empty:
                continue
            if item is None:
                break
            hand, job = item
            try:
                self._run(hand, job)
            except Exception as error:
                # The lease ends, and the job runs again.
                logger.error("job %s (%s) can't be ended: %s", hand.id, hand.kind, ending.name(error))
            finally:
                self._hands.remove(hand)
                self._ended()
        self._sessions.thread_ends()

    def close(self) -> None:
        self._closing.set()
        with suppress(Full):
            for _ in range(self._settings.concurrency):
                self._waiting.put_nowait(None)

    def _run(self, hand: Hand, job: Job) -> None:
        backoff = Backoff(most=1.0)
        while not hand.given_back and not hand.is_over(time.monotonic()):
            connection: Connection[Any] | None = None
            try:
                connection = self._sessions.acquire()
                self._attempt(hand, job, connection)
            except (psycopg.Error, OSError) as error:
                # Only before the handler began: there was no connection, or one that was lost while it was idle.
                if hand.begun:
                    raise
                self._outage.begins(error)
                if connection is not None:
                    connection.close()
                self._closing.wait(backoff.delay())
            finally:
                if connection is not None:
                    self._sessions.give_back(connection)
            if hand.begun:
                return

    def _attempt(self, hand: Hand, job: Job, connection: Connection[Any]) -> None:
        try:
            with self._watch.at_work(hand, connection), ExitStack() as until_committed:
                with self._sessions.transaction(connection):
                    if not self._hands.begin(hand):
                        return
                    try:
                        value = self._handlers[job.kind](job, connection)
                    finally:
                        until_committed.enter_context(self._watch.deadline(connection))
                    self._end(hand, connection, value)
        except BaseException as error:
            if not hand.begun:
                raise
            self._failed(hand, job, connection, error)

    def _end(self, hand: Hand, connection: Connection[Any], value: Any) -> None:
        settings = self._settings
        call = ending.in_transaction(settings.statements, self._hands, hand, value, settings.keep, time.monotonic())
        try:
            self._execute(connection, call)
        except psycopg.Error as error:
            ending.note(self._hands, hand, error, time.monotonic())
            raise

    def _failed(self, hand: Hand, job: Job, connection: Connection[Any], error: BaseException) -> None:
        """The transaction was rolled back, or its connection is lost."""
        is_broken = broken(connection)
        call = ending.after_error(self._settings.statements, hand, error, is_broken)
        line = ending.line(hand, error, job.attempt, job.max_attempts)
        if line is not None:
            logger.warning("%s", line, exc_info=error if logger.isEnabledFor(logging.DEBUG) else None)
        if call is None:
            return
        other = self._sessions.acquire() if is_broken else connection
        try:
            with self._watch.deadline(other):
                self._execute(other, call)
        finally:
            if other is not connection:
                self._sessions.give_back(other)

    def _execute(self, connection: Connection[Any], call: Call) -> None:
        with connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(*call)
