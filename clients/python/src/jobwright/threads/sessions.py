"""The connections of a worker: a URL, a function that connects, or a pool of psycopg_pool."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias, runtime_checkable

import psycopg
from psycopg import Connection

from ..connecting import broken, check_transaction, checked


@runtime_checkable
class Pool(Protocol):
    """The used part of `psycopg_pool.ConnectionPool`."""

    def getconn(self, timeout: float | None = None) -> Connection[Any]: ...

    def putconn(self, conn: Connection[Any]) -> None: ...


Database: TypeAlias = str | Callable[[], Connection[Any]] | Pool


class Sessions:
    """Opens and closes connections, and keeps up to `idle` of them. Those of a pool go back to it at once.

    `prepares`: whether the connections that it opens prepare statements, which not every pooler can pass on.
    """

    def __init__(self, database: Database, idle: int, timeout: float, prepares: bool = True) -> None:
        self._timeout = timeout
        self._pool: Pool | None = None
        self._connect: Callable[[], Connection[Any]]
        if isinstance(database, str):
            text = checked(database)
            threshold = 5 if prepares else None
            self._connect = lambda: psycopg.connect(text, autocommit=True, prepare_threshold=threshold)
        elif isinstance(database, Pool):
            self._pool = database
        else:
            self._connect = database
        self._idle: list[Connection[Any]] = []
        self._most = 0 if self._pool else idle
        self._lock = threading.Lock()
        self._open = True
        self._manual: set[int] = set()

    def acquire(self) -> Connection[Any]:
        """A connection that commits each statement. Raises psycopg.Error."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self.connect()

    def connect(self) -> Connection[Any]:
        """The same, but never one that was kept."""
        connection = self._pool.getconn(self._timeout) if self._pool else self._connect()
        if not connection.autocommit:
            with self._lock:
                self._manual.add(id(connection))
            connection.autocommit = True
        return connection

    def give_back(self, connection: Connection[Any]) -> None:
        """Takes it back, in any state."""
        if not broken(connection):
            with self._lock:
                if self._open and len(self._idle) < self._most:
                    self._idle.append(connection)
                    return
        with self._lock:
            was_manual = id(connection) in self._manual
            self._manual.discard(id(connection))
        if self._pool is None:
            connection.close()
            return
        if was_manual and not broken(connection):
            connection.autocommit = False
        self._pool.putconn(connection)

    def transaction(self, connection: Connection[Any]) -> AbstractContextManager[Any]:
        """The transaction in which a handler works and its job ends."""
        return connection.transaction()

    def check(self, connection: Connection[Any]) -> None:
        """Raises JobwrightError if a handler has returned and its transaction can't take its job's end."""
        check_transaction(connection)

    def thread_ends(self) -> None:
        """Called in each thread of handlers when it ends."""

    def close(self) -> None:
        with self._lock:
            self._open = False
            idle, self._idle = self._idle, []
        for connection in idle:
            self.give_back(connection)
