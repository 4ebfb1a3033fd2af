"""The calls of the SQL functions: a statement with its parameters for each. They do no I/O."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from . import schema as names
from .durations import Duration, interval
from .job import COLUMNS


class Call(NamedTuple):
    """The arguments of `execute`."""

    query: bytes
    parameters: Sequence[Any] = ()

    def __repr__(self) -> str:
        """Without the parameters: tokens, contents of jobs."""
        return f"Call({self.query!r})"


def json(value: Any) -> Jsonb | None:
    """A value as JSON; None stays null of SQL."""
    return value if value is None or isinstance(value, Jsonb) else Jsonb(value)


class Statements:
    """Those of a schema. A job is named by its id and its token everywhere."""

    def __init__(self, schema: str) -> None:
        self._schema = names.quoted(schema)
        self.listen = Call(f"listen {names.channel(schema)}".encode())
        self.unlisten = Call(f"unlisten {names.channel(schema)}".encode())

    def _call(self, function: str, arguments: str, *parameters: Any) -> Call:
        return Call(f"select {self._schema}.{function}({arguments})".encode(), parameters)

    def take(
        self,
        queue: str,
        worker: str,
        n: int,
        lease: Duration,
        kinds: Sequence[str] | None,
        content_types: Sequence[str] | None,
    ) -> Call:
        text = f"select {COLUMNS} from {self._schema}.take(%s, %s, %s, %s::interval, %s::text[], %s::text[])"
        kind_list = None if kinds is None else list(kinds)
        content_type_list = None if content_types is None else list(content_types)
        return Call(text.encode(), (queue, worker, n, interval(lease), kind_list, content_type_list))

    def done(self, id: UUID, token: UUID, result: Any, keep: Duration | None) -> Call:
        return self._call("done", "%s, %s, %s::jsonb, %s::interval", id, token, json(result), interval(keep))

    def fail(self, id: UUID, token: UUID, error: str, detail: str | None, dead: bool, strict: bool) -> Call:
        arguments = "%s, %s, %s::text, detail => %s::text, dead => %s, strict => %s"
        return self._call("fail", arguments, id, token, error, detail, dead, strict)

    def later(self, id: UUID, token: UUID, delay: Duration, strict: bool) -> Call:
        return self._call("later", "%s, %s, %s::interval, strict => %s", id, token, interval(delay), strict)

    def release_many(self, ids: Sequence[UUID], tokens: Sequence[UUID]) -> Call:
        return self._call("release_many", "%s::uuid[], %s::uuid[], strict => false", list(ids), list(tokens))

    def extend_many(self, ids: Sequence[UUID], tokens: Sequence[UUID]) -> Call:
        text = f"select id, state from {self._schema}.extend_many(%s::uuid[], %s::uuid[], strict => false)"
        return Call(text.encode(), (list(ids), list(tokens)))

    def progress(self, id: UUID, token: UUID, percent: int | None, note: str | None, checkpoint: Any) -> Call:
        arguments = "%s, %s, %s::integer, %s::text, %s::jsonb"
        return self._call("progress", arguments, id, token, percent, note, json(checkpoint))

    def cancel(self, id: UUID | None, kind: str | None, unique_key: str | None) -> Call:
        return self._call("cancel", "%s::uuid, %s::text, %s::text", id, kind, unique_key)

    def wake(self, queue: str) -> Call:
        return self._call("wake", "%s::text", queue)

    def send(self, arguments: dict[str, tuple[Any, str]]) -> Call:
        """`arguments`: by their names, each value with its type of SQL. None is left out, unless it is the payload."""
        given = {name: pair for name, pair in arguments.items() if pair[0] is not None or name == "payload"}
        text = ", ".join(f"{name} => %s::{type_}" for name, (_, type_) in given.items())
        return self._call("send", text, *(value for value, _ in given.values()))
