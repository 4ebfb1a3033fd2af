"""A connection for calls of the worker itself: opened when it is needed, and closed when it has failed."""

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import Connection, Cursor
from psycopg.rows import tuple_row

from ..connecting import broken
from ..statements import Call
from .sessions import Sessions
from .watch import Watch


def execute(connection: Connection[Any], call: Call) -> list[tuple[Any, ...]]:
    """Makes a call with parameters of the protocol, whatever cursors the connection makes for others.

    A token that is written into the text of a statement is in `pg_stat_activity`, and in the log of the server.
    """
    with Cursor(connection, row_factory=tuple_row) as cursor:
        return cursor.execute(*call).fetchall()


class Line:
    """Calls are made one after the other. Each has a deadline, and raises psycopg.Error."""

    def __init__(
        self, sessions: Sessions, watch: Watch, timeout: float, opened: Callable[[Connection[Any]], None] | None = None
    ) -> None:
        self._sessions, self._watch, self._timeout, self._opened = sessions, watch, timeout, opened
        self._lock = threading.Lock()
        self.connection: Connection[Any] | None = None
        self.sent_at = 0.0
        """When the last call was sent, by the monotonic clock: a lease that it asked for does not begin earlier."""

    def call(self, call: Call) -> list[tuple[Any, ...]]:
        if not self._lock.acquire(timeout=self._timeout):
            raise psycopg.OperationalError(f"the calls before this one took longer than {self._timeout:g} s")
        try:
            connection = self._open()
            self.sent_at = time.monotonic()
            with self._watch.deadline(connection, self._timeout):
                return execute(connection, call)
        finally:
            if self.connection is not None and broken(self.connection):
                self.close()
            self._lock.release()

    def _open(self) -> Connection[Any]:
        if self.connection is None:
            connection = self._sessions.connect()
            try:
                if self._opened is not None:
                    with self._watch.deadline(connection, self._timeout):
                        self._opened(connection)
            except BaseException:
                connection.close()
                self._sessions.give_back(connection)
                raise
            self.connection = connection
        return self.connection

    def close(self, before: Call | None = None) -> None:
        """Closes it, after a last statement if it can take one."""
        connection, self.connection = self.connection, None
        if connection is None:
            return
        try:
            if before is not None and not broken(connection):
                with self._watch.deadline(connection, self._timeout):
                    connection.execute(*before)
        except psycopg.Error:
            connection.close()
        self._sessions.give_back(connection)
