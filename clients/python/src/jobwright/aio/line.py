"""A connection for calls of the worker itself: opened when it is needed, and closed when it has failed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import tuple_row

from ..connecting import broken
from ..statements import Call
from .sessions import AsyncSessions
from .watch import AsyncWatch


class AsyncLine:
    """Calls are made one after the other. Each has a deadline, and raises psycopg.Error."""

    def __init__(
        self,
        sessions: AsyncSessions,
        watch: AsyncWatch,
        opened: Callable[[AsyncConnection[Any]], Awaitable[None]] | None = None,
    ) -> None:
        self._sessions, self._watch, self._opened = sessions, watch, opened
        self._lock = asyncio.Lock()
        self.connection: AsyncConnection[Any] | None = None

    async def call(self, call: Call) -> list[tuple[Any, ...]]:
        # Each call before this one has its deadline.
        async with self._lock:
            try:
                connection = await self._open()
                with self._watch.deadline(connection):
                    async with connection.cursor(row_factory=tuple_row) as cursor:
                        await cursor.execute(*call)
                        return await cursor.fetchall()
            finally:
                if self.connection is not None and broken(self.connection):
                    await self.close()

    async def _open(self) -> AsyncConnection[Any]:
        if self.connection is None:
            connection = await self._sessions.connect()
            try:
                if self._opened is not None:
                    with self._watch.deadline(connection):
                        await self._opened(connection)
            except BaseException:
                await connection.close()
                await self._sessions.give_back(connection)
                raise
            self.connection = connection
        return self.connection

    async def close(self, before: Call | None = None) -> None:
        """Closes it, after a last statement if it can take one."""
        connection, self.connection = self.connection, None
        if connection is None:
            return
        try:
            if before is not None and not broken(connection):
                with self._watch.deadline(connection):
                    await connection.execute(*before)
        except psycopg.Error:
            await connection.close()
        await self._sessions.give_back(connection)
