"""Leases are renewed while a handler runs; a handler that has lost its job can't commit."""

import threading
import time
from typing import Any

import psycopg
import pytest
from harness import Context
from psycopg import Connection

from jobwright import JobCancelled, JobLost, cancel, send
from jobwright.leases import Leases


def test_a_lease_is_renewed_while_the_handler_runs(
    db: Connection[Any], schema: str, executor: None, worker: Any, eventually: Any
) -> None:
    starts: list[int] = []
    proceed = threading.Event()

    def handle(context: Context) -> None:
        starts.append(context.job.attempt)
        context.execute(f"insert into {schema}.effect values (%s, 'work')", [context.job.id])
        proceed.wait(30)

    send(db, "long", 1, schema=schema)
    worker({"long": handle}, lease=1)
    eventually(lambda: starts, "the handler begins")
    began = time.monotonic()
    # Two leases of one second, and the time that the executor takes to look.
    eventually(lambda: time.monotonic() > began + 2.5, "time passes")
    proceed.set()
    eventually(lambda: not db.execute("select from jobs").fetchall(), "the job is done")
    assert starts == [1]
    assert db.execute("select count(*) from effect").fetchone() == (1,)


def test_a_job_that_another_transaction_is_just_ending_is_kept(
    db: Connection[Any], url: str, schema: str, worker: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[str] = []
    renewed = Leases.renewed

    def note(self: Leases, asked: Any, rows: list[tuple[Any, str]], sent_at: float, now: float) -> bool:
        answers.extend(state for _, state in rows)
        return renewed(self, asked, rows, sent_at, now)

    monkeypatch.setattr("jobwright.leases.Leases.renewed", note)
    begun, proceed = threading.Event(), threading.Event()
    told: list[bool] = []

    def handle(context: Context) -> None:
        begun.set()
        proceed.wait(30)
        told.append(context.job.cancelled.is_set())

    send(db, "work", 1, schema=schema)
    worker({"work": handle}, lease=3)
    assert begun.wait(20)
    with psycopg.connect(url) as other:
        other.execute(f"select from {schema}.external_job for update")
        # It asks again before the next third of the lease has passed.
        eventually(lambda: answers[-2:] == ["ending", "ending"], "its lease stays as it is")
    eventually(lambda: answers[-1] == "held", "the lease is renewed again")
    proceed.set()
    eventually(lambda: not db.execute("select from jobs").fetchall(), "it is done")
    assert told == [False]


def test_a_handler_that_outlives_its_lease_does_not_commit(
    db: Connection[Any],
    schema: str,
    executor: None,
    worker: Any,
    eventually: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As if the process had been paused: nothing is renewed, and no clock of its own says that the lease has ended."""
    monkeypatch.setattr("jobwright.threads.keeper.Keeper.renew", lambda self: None)

    async def nothing(self: Any) -> None:
        return None

    monkeypatch.setattr("jobwright.aio.keeper.AsyncKeeper.renew", nothing)
    monkeypatch.setattr("jobwright.leases.Leases.overdue", lambda self, now, grace: [])
    monkeypatch.setattr("jobwright.leases.Lease.is_over", lambda self, now: False)
    begun = threading.Event()
    proceed = threading.Event()

    def handle(context: Context) -> None:
        note = f"attempt {context.job.attempt}"
        context.execute(f"insert into {schema}.effect values (%s, %s)", [context.job.id, note])
        if context.job.attempt == 1:
            begun.set()
            proceed.wait(30)

    id = send(db, "slow", 1, schema=schema)
    worker({"slow": handle}, lease=1, concurrency=2)
    assert begun.wait(20)
    # The second attempt runs in the other slot, and commits.
    eventually(lambda: db.execute("select note from effect").fetchall() == [("attempt 2",)], "the other commits")
    proceed.set()
    eventually(lambda: f"job {id} (slow) was lost" in caplog.text, "the first handler has ended")
    assert db.execute("select job, note from effect").fetchall() == [(id, "attempt 2")]
    assert db.execute("select count(*) from jobs").fetchone() == (0,)


def test_the_handler_is_told_when_its_lease_ends_here(
    db: Connection[Any], schema: str, worker: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database does not answer to renewals. No executor runs, so the database alone would still take the end."""

    def fails(self: Any) -> None:
        raise psycopg.OperationalError("no answer")

    async def fails_too(self: Any) -> None:
        raise psycopg.OperationalError("no answer")

    monkeypatch.setattr("jobwright.threads.keeper.Keeper.renew", fails)
    monkeypatch.setattr("jobwright.aio.keeper.AsyncKeeper.renew", fails_too)
    told: list[float] = []

    def handle(context: Context) -> None:
        context.execute(f"insert into {schema}.effect values (%s, 'work')", [context.job.id])
        began = time.monotonic()
        while not context.job.cancelled.is_set() and time.monotonic() < began + 20:
            threading.Event().wait(0.02)
        told.append(time.monotonic() - began)

    send(db, "slow", 1, schema=schema)
    running = worker({"slow": handle}, lease=1)
    eventually(lambda: told, "it is told")
    assert 0.5 < told[0] < 5
    assert running.stop(10)
    assert db.execute("select count(*) from effect").fetchone() == (0,)
    assert db.execute("select state from jobs").fetchall() == [("external",)]


@pytest.mark.parametrize("told_by", ["renewal", "progress", "end"])
def test_a_cancelled_job_is_told_and_its_group_is_free(
    told_by: str, db: Connection[Any], schema: str, executor: None, worker: Any, eventually: Any
) -> None:
    begun: list[Any] = []
    seen: list[Any] = []
    proceed = threading.Event()

    def handle(context: Context) -> None:
        begun.append(context.job.id)
        context.execute(f"insert into {schema}.effect values (%s, 'work')", [context.job.id])
        if context.job.payload == 2:
            return
        proceed.wait(20)
        if told_by == "renewal":
            ends = time.monotonic() + 20
            while not context.job.cancelled.is_set() and time.monotonic() < ends:
                threading.Event().wait(0.02)
            seen.append(context.job.cancelled.is_set())
        elif told_by == "progress":
            with pytest.raises(JobCancelled):
                context.progress(50)
            seen.append(context.job.cancelled.is_set())

    first = send(db, "grouped", 1, schema=schema, exclusive_group="g")
    # Long, so that the group is free because the worker says so, and not because the lease has ended.
    worker({"grouped": handle}, lease=3 if told_by == "renewal" else 600, concurrency=2)
    eventually(lambda: begun == [first], "the first job begins")
    second = send(db, "grouped", 2, schema=schema, exclusive_group="g")
    assert cancel(db, first, schema=schema)
    proceed.set()
    eventually(lambda: begun == [first, second], "the group is free", 15)
    eventually(lambda: not db.execute("select from jobs").fetchall(), "both are gone")
    assert seen == ([] if told_by == "end" else [True])
    assert db.execute("select job from effect").fetchall() == [(second,)]
    assert db.execute("select count(*) from terminating_handler").fetchone() == (0,)


def test_progress_of_a_lost_job_says_so(
    db: Connection[Any], schema: str, executor: None, worker: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobwright.threads.keeper.Keeper.renew", lambda self: None)

    async def nothing(self: Any) -> None:
        return None

    monkeypatch.setattr("jobwright.aio.keeper.AsyncKeeper.renew", nothing)
    monkeypatch.setattr("jobwright.leases.Leases.overdue", lambda self, now, grace: [])
    raised: list[type[BaseException]] = []

    def handle(context: Context) -> None:
        if context.job.attempt > 1:
            return
        ends = time.monotonic() + 20
        while time.monotonic() < ends:
            try:
                context.progress(1)
            except Exception as error:
                raised.append(type(error))
                raise
            threading.Event().wait(0.05)

    send(db, "slow", 1, schema=schema)
    worker({"slow": handle}, lease=1)
    eventually(lambda: raised, "it is told")
    assert raised == [JobLost]
