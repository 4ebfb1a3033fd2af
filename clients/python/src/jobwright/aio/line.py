"""A connection for calls of the worker itself: opened when it is needed, and closed when it has failed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import tuple_row

from ..connecting import broken
from ..statements import Call
from .sessions import AsyncSessions
from .watch import AsyncWatch, now


async def execute(connection: AsyncConnection[Any], call: Call) -> list[tuple[Any, ...]]:
    """Makes a call with parameters of the protocol, whatever cursors the connection makes for others.

    A token that is written into the text of a statement is in `pg_stat_activity`, and in the log of the server.
    """
    async with AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(*call)
        return await cursor.fetchall()


class AsyncLine:
    """Calls are made one after the other. Each has a deadline, and raises psycopg.Error."""

    def __init__(
        self,
        sessions: AsyncSessions,
        watch: AsyncWatch,
        timeout: float,
        opened: Callable[[AsyncConnection[Any]], Awaitable[None]] | None = None,
    ) -> None:
        self._sessions, self._watch, self._timeout, self._opened = sessions, watch, timeout, opened
        self._lock = asyncio.Lock()
        self.connection: AsyncConnection[Any] | None = None
        self.sent_at = 0.0
        """When the last call was sent, by the clock of the loop: a lease that it asked for does not begin earlier."""

    async def call(self, call: Call) -> list[tuple[Any, ...]]:
        # Each call before this one has its deadline.
        async with self._lock:
            try:
                connection = await self._open()
                self.sent_at = now()
                with self._watch.deadline(connection, self._timeout):
                    return await execute(connection, call)
            finally:
                if self.connection is not None and broken(self.connection):
                    await self.close()

    async def _open(self) -> AsyncConnection[Any]:
        if self.connection is None:
            connection = await self._sessions.connect()
            try:
                if self._opened is not None:
                    with self._watch.deadline(connection, self._timeout):
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
                with self._watch.deadline(connection, self._timeout):
                    await connection.execute(*before)
        except psycopg.Error:
            await connection.close()
        await self._sessions.give_back(connection)
