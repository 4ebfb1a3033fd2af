"""Sends, cancels and wakes, in the transaction of the caller's connection.

Without `schema`, it is that of the variable JOBWRIGHT_DATABASE_SCHEMA, or else `jobwright`.

Errors are psycopg's: SQLSTATE 22023 names the argument that can't be used, 23505 says that a unique key is held.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict, cast
from uuid import UUID

from psycopg import AsyncConnection, Connection
from psycopg.rows import tuple_row
from psycopg.types.json import Jsonb

from .durations import Duration, interval
from .schema import default
from .statements import Call, Statements

if TYPE_CHECKING:
    from typing_extensions import Unpack


class SendOptions(TypedDict, total=False):
    """The arguments of `send` besides kind and payload. Left out, or None, each has its default (docs/interop.md)."""

    queue: str | None
    priority: int | None
    due_at: datetime | None
    exclusive_group: str | None
    unique_key: str | None
    max_attempts: int | None
    headers: Mapping[str, str] | None
    ttl: Duration | None
    tenant: str | None
    limit_key: str | None
    id: UUID | None
    ordered: bool | None
    retry: str | None
    body: bytes | None
    content_type: str | None
    unique_digest: bytes | None
    unique_hold: str | None
    unique_period: Duration | None
    unique_conflict: str | None
    max_payload: int | None


TYPES = {
    "queue": "text",
    "priority": "integer",
    "due_at": "timestamptz",
    "exclusive_group": "text",
    "unique_key": "text",
    "max_attempts": "integer",
    "headers": "jsonb",
    "ttl": "interval",
    "tenant": "text",
    "limit_key": "text",
    "id": "uuid",
    "ordered": "boolean",
    "retry": "text",
    "body": "bytea",
    "content_type": "text",
    "unique_digest": "bytea",
    "unique_hold": "text",
    "unique_period": "interval",
    "unique_conflict": "text",
    "max_payload": "integer",
}


def call(schema: str | None, kind: str, payload: Any, options: Mapping[str, Any]) -> Call:
    """The call that sends a job. Raises TypeError for an option that `send` has not, and ValueError."""
    unknown = sorted(set(options) - set(TYPES))
    if unknown:
        raise TypeError(f"send has no option {unknown[0]!r}")
    due = options.get("due_at")
    if due is not None and due.tzinfo is None:
        raise ValueError(f"due_at is {due}, without a time zone: use datetime.now(timezone.utc), for example")
    has_body = options.get("body") is not None
    content = payload if isinstance(payload, Jsonb) else None if payload is None and has_body else Jsonb(payload)
    arguments: dict[str, tuple[Any, str]] = {"kind": (kind, "text"), "payload": (content, "jsonb")}
    for name, value in options.items():
        if name == "headers" and value is not None:
            value = Jsonb(dict(value))
        elif name in ("ttl", "unique_period"):
            value = interval(value)
        arguments[name] = (value, TYPES[name])
    return Statements(schema or default()).send(arguments)


def send(
    connection: Connection[Any],
    kind: str,
    payload: Any = None,
    *,
    schema: str | None = None,
    **options: "Unpack[SendOptions]",
) -> UUID:
    """Sends a job and returns its id: it exists if, and only if, the transaction of this connection commits.

    The payload is anything that JSON can express; for other content give `body` and `content_type`.
    """
    with connection.cursor(row_factory=tuple_row) as cursor:
        return cast(UUID, _one(cursor.execute(*call(schema, kind, payload, options)).fetchone()))


async def send_async(
    connection: AsyncConnection[Any],
    kind: str,
    payload: Any = None,
    *,
    schema: str | None = None,
    **options: "Unpack[SendOptions]",
) -> UUID:
    """As `send`."""
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(*call(schema, kind, payload, options))
        return cast(UUID, _one(await cursor.fetchone()))


def cancel(
    connection: Connection[Any],
    id: UUID | None = None,
    *,
    kind: str | None = None,
    unique_key: str | None = None,
    schema: str | None = None,
) -> bool:
    """Cancels a job by its id, or by its kind and unique key. Returns whether there was one that had not ended."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        return bool(_one(cursor.execute(*Statements(schema or default()).cancel(id, kind, unique_key)).fetchone()))


async def cancel_async(
    connection: AsyncConnection[Any],
    id: UUID | None = None,
    *,
    kind: str | None = None,
    unique_key: str | None = None,
    schema: str | None = None,
) -> bool:
    """As `cancel`."""
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(*Statements(schema or default()).cancel(id, kind, unique_key))
        return bool(_one(await cursor.fetchone()))


def wake(connection: Connection[Any], queue: str = "default", *, schema: str | None = None) -> None:
    """Tells workers and executors that a queue has work. Call it after the commit, in a transaction of its own."""
    connection.execute(*Statements(schema or default()).wake(queue))


async def wake_async(connection: AsyncConnection[Any], queue: str = "default", *, schema: str | None = None) -> None:
    """As `wake`."""
    await connection.execute(*Statements(schema or default()).wake(queue))


def _one(row: Any) -> Any:
    return row[0]
