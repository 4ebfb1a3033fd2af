"""The connections of a worker that runs tasks: Django's own, one in each thread."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, reset_queries, transaction
from django.db.utils import Error
from psycopg import Connection, sql

from ..connecting import defaults
from ..errors import JobwrightError
from ..threads.sessions import Sessions


class DjangoSessions(Sessions):
    """A task's writes by the ORM and the end of its job are one `atomic()`."""

    def __init__(self, alias: str, timeout: float) -> None:
        self._alias = alias
        wrapper = connections[alias]
        if wrapper.vendor != "postgresql":
            raise ImproperlyConfigured(f"the database {alias!r} is not PostgreSQL")
        parameters = dict(wrapper.get_connection_params())
        # These serve the ORM. The worker's own calls are made without them.
        for name in ("context", "cursor_factory", "row_factory"):
            parameters.pop(name, None)
        parameters = {**defaults(parameters), **parameters, "autocommit": True}
        role = wrapper.settings_dict["OPTIONS"].get("assume_role")
        self._rolled_back = threading.local()

        def connect() -> Connection[Any]:
            connection = psycopg.connect(**parameters)
            if role:
                connection.execute(sql.SQL("set role {}").format(sql.Identifier(role)))
            return connection

        super().__init__(connect, 0, timeout)

    def acquire(self) -> Connection[Any]:
        wrapper = connections[self._alias]
        try:
            reset_queries()
            for other in connections.all(initialized_only=True):
                if other is not wrapper:
                    other.close_if_unusable_or_obsolete()
            # This one is kept, whatever CONN_MAX_AGE says. That it is lost would be noticed when the task has begun.
            if wrapper.connection is not None and not wrapper.is_usable():
                wrapper.close()
            wrapper.ensure_connection()
            if not wrapper.get_autocommit():
                # AUTOCOMMIT is False in DATABASES: `atomic()` would not commit.
                wrapper.set_autocommit(True)
        except Error as error:
            raise psycopg.OperationalError(str(error)) from error
        connection: Connection[Any] = wrapper.connection
        return connection

    def give_back(self, connection: Connection[Any]) -> None:
        wrapper = connections[self._alias]
        if wrapper.connection is not connection:
            super().give_back(connection)
        elif connection.closed:
            wrapper.close()

    @contextmanager
    def transaction(self, connection: Connection[Any]) -> Iterator[None]:
        self._rolled_back.call = None
        try:
            with transaction.atomic(using=self._alias, durable=True):
                yield
        except BaseException:
            if self._rolled_back.call is not None:
                self._rolled_back.call()
            raise

    def on_rollback(self, call: Callable[[], None]) -> None:
        """Calls this when the transaction of this thread has been rolled back, and so outside of it."""
        self._rolled_back.call = call

    def check(self, connection: Connection[Any]) -> None:
        super().check(connection)
        if connections[self._alias].needs_rollback:
            raise JobwrightError(
                "the task returned, but its transaction has to be rolled back, because an error was caught inside of it"
                " or by set_rollback(True): use an atomic() around what may fail, inside of which the error is raised"
            )

    def thread_ends(self) -> None:
        connections.close_all()
