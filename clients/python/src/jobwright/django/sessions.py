"""The connections of a worker that runs tasks: Django's own, one in each thread."""

from contextlib import AbstractContextManager
from typing import Any

import psycopg
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, reset_queries, transaction
from django.db.utils import Error
from psycopg import Connection

from ..connecting import defaults
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
        super().__init__(lambda: psycopg.connect(**parameters), 0, timeout)

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

    def transaction(self, connection: Connection[Any]) -> AbstractContextManager[Any]:
        atomic: AbstractContextManager[Any] = transaction.atomic(using=self._alias, durable=True)
        return atomic

    def thread_ends(self) -> None:
        connections.close_all()
