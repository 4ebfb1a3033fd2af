"""The connections of a worker: a URL, a coroutine function that connects, or an async pool of psycopg_pool."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

import psycopg
from psycopg import AsyncConnection

from ..connecting import broken, checked


@runtime_checkable
class AsyncPool(Protocol):
    """The used part of `psycopg_pool.AsyncConnectionPool`."""

    async def getconn(self, timeout: float | None = None) -> AsyncConnection[Any]: ...

    async def putconn(self, conn: AsyncConnection[Any]) -> None: ...


AsyncDatabase: TypeAlias = str | Callable[[], Awaitable[AsyncConnection[Any]]] | AsyncPool


class AsyncSessions:
    """Opens and closes connections, and keeps up to `idle` of them. Those of a pool go back to it at once."""

    def __init__(self, database: AsyncDatabase, idle: int, timeout: float, prepares: bool = True) -> None:
        self._timeout = timeout
        self._pool: AsyncPool | None = None
        self._connect: Callable[[], Awaitable[AsyncConnection[Any]]]
        if isinstance(database, str):
            text = checked(database)
            threshold = 5 if prepares else None
            self._connect = lambda: psycopg.AsyncConnection.connect(text, autocommit=True, prepare_threshold=threshold)
        elif isinstance(database, AsyncPool):
            self._pool = database
        else:
            self._connect = database
        self._idle: list[AsyncConnection[Any]] = []
        self._most = 0 if self._pool else idle
        self._open = True
        self._manual: set[int] = set()

    async def acquire(self) -> AsyncConnection[Any]:
        """A connection that commits each statement. Raises psycopg.Error."""
        return self._idle.pop() if self._idle else await self.connect()

    async def connect(self) -> AsyncConnection[Any]:
        """The same, but never one that was kept."""
        connection = await (self._pool.getconn(self._timeout) if self._pool else self._connect())
        if not connection.autocommit:
            self._manual.add(id(connection))
            await connection.set_autocommit(True)
        return connection

    async def give_back(self, connection: AsyncConnection[Any]) -> None:
        """Takes it back, in any state."""
        if not broken(connection) and self._open and len(self._idle) < self._most:
            self._idle.append(connection)
            return
        was_manual = id(connection) in self._manual
        self._manual.discard(id(connection))
        if self._pool is None:
            await connection.close()
            return
        if was_manual and not broken(connection):
            await connection.set_autocommit(False)
        await self._pool.putconn(connection)

    async def close(self) -> None:
        self._open = False
        while self._idle:
            await self.give_back(self._idle.pop())
