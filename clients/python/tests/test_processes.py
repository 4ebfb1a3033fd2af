"""Workers in processes of their own: killed, stopped by signals, several at once."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from jobwright import send

PROGRAM = str(Path(__file__).with_name("program.py"))
Spawn = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def spawn(request: pytest.FixtureRequest, url: str, schema: str) -> Iterator[Spawn]:
    processes: list[subprocess.Popen[bytes]] = []

    def start(kind: str, name: str, lease: float, *more: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, PROGRAM, kind, schema, name, str(lease), *more]
        process = subprocess.Popen(command, env={**os.environ, "DATABASE_URL": url})
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait(20)


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_another_worker_continues_after_one_is_killed(
    kind: str, db: Connection[Any], schema: str, executor: None, spawn: Spawn, eventually: Any
) -> None:
    lease = 2
    jobs = [send(db, "work", 60 if number < 2 else 0, schema=schema) for number in range(12)]
    victim = spawn(kind, "victim", lease)
    eventually(lambda: len(db.execute("select from start").fetchall()) == 2, "it has begun two jobs")
    db.execute("update external_job set payload = '0'")  # The next attempts are short.
    other = spawn(kind, "other", lease)
    eventually(lambda: len(db.execute("select from effect").fetchall()) == 10, "the other does the rest")
    # While the victim lives and renews its leases, its jobs start nowhere else.
    assert db.execute("select count(*) from start where attempt > 1").fetchone() == (0,)
    victim.send_signal(signal.SIGKILL)
    victim.wait(20)
    eventually(lambda: not db.execute("select from jobs").fetchall(), "all jobs are done", 40)
    # The victim's writes are gone with it, and each job has committed once.
    assert db.execute("select distinct note from effect").fetchall() == [("other",)]
    assert sorted(row[0] for row in db.execute("select job from effect")) == sorted(jobs)
    again = db.execute(
        "select b.at - a.at > %s * interval '1 second' from start a join start b using (job)"
        " where a.attempt = 1 and b.attempt = 2",
        [lease],
    )
    assert again.fetchall() == [(True,), (True,)]
    other.send_signal(signal.SIGTERM)
    assert other.wait(20) == 0


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_worker_that_was_paused_beyond_its_lease_commits_nothing(
    kind: str, db: Connection[Any], schema: str, executor: None, spawn: Spawn, eventually: Any
) -> None:
    id = send(db, "work", 1, schema=schema)
    paused = spawn(kind, "paused", 1)
    eventually(lambda: db.execute("select from start").fetchall(), "it has begun")
    paused.send_signal(signal.SIGSTOP)
    spawn(kind, "other", 1)
    eventually(lambda: not db.execute("select from jobs").fetchall(), "the other has done it", 30)
    paused.send_signal(signal.SIGCONT)
    paused.send_signal(signal.SIGTERM)
    # It ends its handler before it ends.
    assert paused.wait(30) == 0
    assert db.execute("select job, note from effect").fetchall() == [(id, "other")]


def test_both_kinds_share_a_queue(db: Connection[Any], schema: str, spawn: Spawn, eventually: Any) -> None:
    spawn("threads", "a", 60, "4")
    spawn("asyncio", "b", 60, "4")
    for _ in range(100):
        send(db, "work", 0.01, schema=schema)
    eventually(lambda: not db.execute("select from jobs").fetchall(), "all jobs are done", 40)
    assert db.execute("select count(*), count(distinct job) from effect").fetchone() == (100, 100)
    assert db.execute("select count(*), count(distinct worker) from start").fetchone() == (100, 2)


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_worker_after_its_jobs(
    kind: str, number: signal.Signals, db: Connection[Any], schema: str, spawn: Spawn, eventually: Any
) -> None:
    for _ in range(4):
        send(db, "work", 1, schema=schema)
    process = spawn(kind, "one", 60)
    eventually(lambda: len(db.execute("select from start").fetchall()) == 2, "it has begun two jobs")
    process.send_signal(number)
    assert process.wait(20) == 0
    assert db.execute("select count(*) from effect").fetchone() == (2,)
    assert db.execute("select distinct state, attempt from jobs").fetchall() == [("waiting", 0)]
