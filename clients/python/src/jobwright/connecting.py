"""The text by which a worker connects, and the way to end a wait for a server that is silent."""

import contextlib
import os
import socket
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from .errors import JobwrightError

#: Parameters of libpq, with which a dead server is noticed, and the variables that set them, too.
DEFAULTS = {
    "connect_timeout": (10, "PGCONNECT_TIMEOUT"),
    "keepalives_idle": (15, None),
    "keepalives_interval": (5, None),
    "keepalives_count": (3, None),
    "tcp_user_timeout": (30_000, None),
    "application_name": ("jobwright-python", "PGAPPNAME"),
}


def checked(text: str) -> str:
    """A URL, or `host=… key=value`, with the defaults.

    Raises ValueError, which does not repeat the text: it may hold a password.
    """
    try:
        given = conninfo_to_dict(text)
        ports = str(given.get("port", "") or "")
        if not all(port == "" or port.isdecimal() for port in ports.split(",")):
            raise ValueError
    except (psycopg.Error, ValueError):
        raise ValueError(
            "the text that names the database can't be read: use postgres://user@host/database,"
            " with @ : / ? # % in a password percent-encoded"
        ) from None
    return make_conninfo(text, **defaults(given))


def check_pool(pool: object, wanted: int) -> None:
    """Raises ValueError for a pool that is too small: jobs would be taken that can't begin."""
    most = getattr(pool, "max_size", None)
    # A pool that keeps nothing (NullConnectionPool) has no limit at 0.
    if most and most < wanted:
        raise ValueError(f"the pool has {most} connections at most, and the worker needs concurrency + 3: {wanted}")


def defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those that neither these parameters nor the environment set."""
    return {
        key: value
        for key, (value, variable) in DEFAULTS.items()
        if key not in given and not (variable and os.environ.get(variable))
    }


def cut(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Ends a connection from outside, even in a wait: its user gets psycopg.OperationalError."""
    with contextlib.suppress(psycopg.Error, OSError):
        with socket.socket(fileno=os.dup(connection.fileno())) as alias:
            alias.shutdown(socket.SHUT_RDWR)


def broken(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Whether it can't be used again."""
    return connection.closed or connection.pgconn.transaction_status != TransactionStatus.IDLE


def check_transaction(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Raises JobwrightError if a handler has returned and its transaction can't take its job's end."""
    status = connection.pgconn.transaction_status
    # Without autocommit (Django), the transaction begins with the first statement.
    if status == TransactionStatus.IDLE and connection.autocommit:
        raise JobwrightError(
            "the handler has ended the transaction that it was given, so its job can't end in it:"
            " leave commit and rollback to the worker"
        )
    if status == TransactionStatus.INERROR:
        raise JobwrightError(
            "a statement of the handler failed, and the handler returned nevertheless: the transaction can't commit;"
            " put what may fail in a transaction() of its own, inside of which the error is raised"
        )


def hints(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> list[str]:
    """The payloads of notifications that have arrived. Raises psycopg.OperationalError if the connection was lost."""
    pgconn = connection.pgconn
    pgconn.consume_input()
    found = []
    while (notification := pgconn.notifies()) is not None:
        found.append(notification.extra.decode(errors="replace"))
    return found
