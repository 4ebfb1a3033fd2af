"""The connection is lost at the commit: only the database knows whether the job is done."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from harness import Context
from psycopg import Connection
from relay import Relay

from jobwright import send


@pytest.fixture
def relay(url: str) -> Iterator[Relay]:
    with Relay(url) as relay:
        yield relay


def handler(schema: str, starts: list[tuple[Any, int, float]]) -> Any:
    def handle(context: Context) -> None:
        starts.append((context.job.id, context.job.attempt, time.monotonic()))
        context.execute(f"insert into {schema}.effect values (%s, %s)", [context.job.id, str(context.job.attempt)])

    return handle


def test_a_job_whose_commit_was_not_answered_is_done_once(
    db: Connection[Any],
    schema: str,
    relay: Relay,
    executor: None,
    worker: Any,
    eventually: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    starts: list[Any] = []
    relay.loses = "answer"
    first = send(db, "work", 1, schema=schema)
    worker({"work": handler(schema, starts)}, database=relay.url, lease=1)
    eventually(lambda: "not known whether it is done" in caplog.text, "it does not know")
    second = send(db, "work", 1, schema=schema)
    eventually(lambda: len(db.execute("select from effect").fetchall()) == 2, "both are done")
    assert not db.execute("select from jobs").fetchall()
    assert [(id, attempt) for id, attempt, _ in starts] == [(first, 1), (second, 1)]


def test_a_job_whose_commit_was_lost_runs_again_after_its_lease(
    db: Connection[Any],
    schema: str,
    relay: Relay,
    executor: None,
    worker: Any,
    eventually: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    starts: list[Any] = []
    relay.loses = "request"
    id = send(db, "work", 1, schema=schema)
    worker({"work": handler(schema, starts)}, database=relay.url, lease=1)
    eventually(lambda: "not known whether it is done" in caplog.text, "it does not know")
    # No failure is recorded, which would make it run again at once.
    assert db.execute("select state, attempt, coalesce(errors, '[]') from jobs").fetchall() == [("external", 1, [])]
    eventually(lambda: not db.execute("select from jobs").fetchall(), "another attempt is done")
    assert [(job, attempt) for job, attempt, _ in starts] == [(id, 1), (id, 2)]
    assert starts[1][2] - starts[0][2] > 0.8
    assert db.execute("select job, note from effect").fetchall() == [(id, "2")]
