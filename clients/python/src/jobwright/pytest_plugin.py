"""The fixture `jobwright_jobs` for tests of programs that send jobs: it finds them, and runs them without a worker.

It sees the jobs that were sent in the test's transaction. Override `jobwright_connection` to return the connection of
yours, and `jobwright_schema` if the schema is neither that of JOBWRIGHT_DATABASE_SCHEMA nor `jobwright`.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import tuple_row

from . import schema as names
from .job import Job
from .outcome import Fatal, Later
from .statements import Statements

COLUMNS = (
    "id, queue, kind, payload::text, body, content_type, headers::text, max_attempts, options ->> 'group',"
    " options ->> 'tenant', priority, created_at, state, due_at, options::text"
)


@dataclass(frozen=True, kw_only=True)
class SentJob:
    """A job that waits."""

    job: Job
    state: str
    """waiting; blocked, by its group or a limit; timer, until `due_at`; suspended."""
    due_at: Any
    options: Mapping[str, Any]
    """Those of `send` that most jobs have not: group, tenant, limit, retry, …"""


class SentJobs:
    """The jobs that were sent since the test began, as its connection sees them."""

    def __init__(self, connection: Connection[Any], schema: str) -> None:
        self._connection, self._schema = connection, schema
        self._view = f"{names.quoted(schema)}.jobs"
        self._since: int = self._rows(f"select coalesce(max(seq), 0) from {self._view}")[0][0]

    def all(self, kind: str | None = None, queue: str | None = None) -> list[SentJob]:
        """Those that have not run, of a kind or queue, in the order in which they would start."""
        rows = self._rows(
            f"select {COLUMNS} from {self._view}"
            " where seq > %s and state in ('waiting', 'blocked', 'timer', 'suspended')"
            " and kind = coalesce(%s, kind) and queue = coalesce(%s, queue) order by priority desc, seq",
            (self._since, kind, queue),
        )
        return [_sent(row) for row in rows]

    def assert_sent(
        self, kind: str, payload: Any = ..., *, queue: str | None = None, count: int | None = None
    ) -> list[SentJob]:
        """Fails unless such a job was sent, or as many as `count`. Returns those that were."""
        __tracebackhide__ = True
        sent = self.all(kind, queue)
        found = [one for one in sent if payload is ... or one.job.payload == payload]
        if len(found) != count if count is not None else not found:
            wanted = f"{'a job' if count is None else f'{count} jobs'} {kind!r}"
            wanted += "" if payload is ... else f" with {payload!r}"
            wanted += "" if queue is None else f" in the queue {queue!r}"
            there = ", ".join(f"{one.job.kind!r} in {one.job.queue!r} with {one.job.payload!r}" for one in self.all())
            pytest.fail(f"{wanted} should have been sent; there are {len(found)}. Sent: {there or 'nothing'}")
        return found

    def assert_not_sent(self, kind: str) -> None:
        """Fails if a job of this kind was sent."""
        __tracebackhide__ = True
        if found := self.all(kind):
            pytest.fail(f"{len(found)} jobs {kind!r} were sent, and none should have been")

    def run_all(
        self, handlers: Mapping[str, Callable[[Job, Any], Any]], *, timers: bool = False, most: int = 1000
    ) -> list[Job]:
        """Runs the jobs that wait, and those that their handlers send, in the test's transaction. Returns them.

        Kinds without a handler are left alone, and so are timers without `timers`. Groups and limits hold nothing up.
        A job that ends with `Later` stays. Errors of handlers, `Fatal` too, come out, and their writes are undone.
        """
        ran: dict[UUID, Job] = {}
        states = ("waiting", "blocked", "timer") if timers else ("waiting", "blocked")
        while waiting := [
            one.job for one in self.all() if one.job.kind in handlers and one.state in states and one.job.id not in ran
        ]:
            job = waiting[0]
            if len(ran) == most:
                pytest.fail(f"{most} jobs have run, and more wait: do handlers send each other jobs without end?")
            ran[job.id] = job
            try:
                # A savepoint, since the test's transaction is open.
                with self._connection.transaction():
                    value = handlers[job.kind](job, self._connection)
                    if isinstance(value, Fatal):
                        raise value
                    if not isinstance(value, Later):
                        self._rows(*Statements(self._schema).cancel(job.id, None, None))
            except Later:
                pass
        return list(ran.values())

    def _rows(self, query: str | bytes, parameters: Any = ()) -> list[tuple[Any, ...]]:
        text = query.encode() if isinstance(query, str) else query
        with self._connection.cursor(row_factory=tuple_row) as cursor:
            return cursor.execute(text, parameters).fetchall()


def _sent(row: tuple[Any, ...]) -> SentJob:
    # As texts, because the reader of JSON may be another one (Django's returns texts).
    (
        id,
        queue,
        kind,
        payload,
        body,
        content_type,
        headers,
        most,
        group,
        tenant,
        priority,
        created,
        state,
        due,
        options,
    ) = row
    job = Job(
        id=id,
        queue=queue,
        kind=kind,
        payload=None if payload is None else json.loads(payload),
        body=body,
        content_type=content_type,
        headers=json.loads(headers or "{}"),
        attempt=1,
        max_attempts=most,
        group=group,
        tenant=tenant,
        priority=priority,
        created_at=created,
        lease_until=created,
        last_error=None,
        checkpoint=None,
    )
    return SentJob(job=job, state=state, due_at=due, options=json.loads(options or "{}"))


@pytest.fixture
def jobwright_schema() -> str:
    """The schema of jobwright in the database of the tests: JOBWRIGHT_DATABASE_SCHEMA, or jobwright."""
    return names.default()


@pytest.fixture
def jobwright_connection() -> Iterator[Connection[Any]]:
    """A connection to DATABASE_URL in a transaction, which is rolled back. Override it to return that of your tests."""
    url = os.environ.get("DATABASE_URL")
    if not url:
        pytest.fail("override the fixture jobwright_connection, or set DATABASE_URL to the database of the tests")
    with psycopg.connect(url) as connection:
        with connection.transaction(force_rollback=True):
            yield connection


@pytest.fixture
def jobwright_jobs(jobwright_connection: Connection[Any], jobwright_schema: str) -> SentJobs:
    """The jobs that the test sends."""
    return SentJobs(jobwright_connection, jobwright_schema)
