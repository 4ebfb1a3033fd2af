"""Connections are lost, or never come; the worker says so once and goes on."""

import logging
import threading
import time
from typing import Any

import psycopg
import pytest
from harness import Context
from psycopg import Connection
from relay import Relay

from jobwright import send, wake
from jobwright.connecting import checked, cut

OWN = "select pid from pg_stat_activity where application_name = %s and pid <> pg_backend_pid()"


def named(url: str, name: str) -> str:
    return psycopg.conninfo.make_conninfo(url, application_name=name)


def test_a_worker_recovers_when_all_its_connections_are_ended(
    db: Connection[Any],
    url: str,
    schema: str,
    executor: None,
    worker: Any,
    eventually: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun: list[int] = []
    proceed = threading.Event()

    def handle(context: Context) -> None:
        begun.append(context.job.attempt)
        context.execute(f"insert into {schema}.effect values (%s, %s)", [context.job.id, str(context.job.attempt)])
        if context.job.attempt == 1:
            proceed.wait(20)

    id = send(db, "work", 1, schema=schema)
    worker({"work": handle}, database=named(url, schema), lease=1)
    eventually(lambda: begun == [1], "it has begun")
    db.execute(f"select pg_terminate_backend(pid) from ({OWN}) own", [schema])
    proceed.set()
    eventually(lambda: not db.execute("select from jobs").fetchall(), "another attempt is done")
    # The first one's work is gone with its connection.
    assert db.execute("select job, note from effect").fetchall() == [(id, "2")]
    eventually(lambda: "can use the database again" in caplog.text, "it says that it is over")
    lines = [record.getMessage() for record in caplog.records if "use the database" in record.getMessage()]
    assert 2 <= len(lines) <= 4, lines
    assert not any("proceed" in line for line in lines)


def test_idle_connections_that_were_lost_cost_no_attempt(
    db: Connection[Any], url: str, schema: str, worker: Any, eventually: Any
) -> None:
    attempts: list[int] = []
    send(db, "work", 1, schema=schema)
    worker({"work": lambda context: attempts.append(context.job.attempt)}, database=named(url, schema), lease=600)
    eventually(lambda: not db.execute("select from jobs").fetchall(), "the first is done")
    # Only those of handlers: the one that takes listens.
    handlers = f"select pg_terminate_backend(pid) from pg_stat_activity where pid in ({OWN}) and query = 'COMMIT'"
    assert db.execute(handlers, [schema]).fetchall() == [(True,)]
    send(db, "work", 2, schema=schema)
    eventually(lambda: not db.execute("select from jobs").fetchall(), "the second is done")
    assert attempts == [1, 1]


def test_a_server_that_is_silent_is_noticed(
    url: str, schema: str, worker: Any, eventually: Any, caplog: pytest.LogCaptureFixture, db: Connection[Any]
) -> None:
    """A relay passes everything on, until it is told to be silent."""
    with Relay(url) as relay:
        worker({"work": lambda context: None}, database=relay.url, call_timeout=0.5)
        send(db, "work", 1, schema=schema)
        eventually(lambda: not db.execute("select from jobs").fetchall(), "it works")
        relay.silent = True
        eventually(lambda: "can't use the database" in caplog.text, "it says so", 15)
        relay.silent = False
        send(db, "work", 1, schema=schema)
        eventually(lambda: not db.execute("select from jobs").fetchall(), "it works again", 30)


def test_the_database_may_come_later(
    db: Connection[Any], url: str, schema: str, worker: Any, eventually: Any, caplog: pytest.LogCaptureFixture
) -> None:
    there = threading.Event()
    refused: list[int] = []

    def connect() -> Connection[Any]:
        if not there.is_set():
            refused.append(1)
            raise psycopg.OperationalError("connection refused")
        return psycopg.connect(url)

    async def connect_async() -> psycopg.AsyncConnection[Any]:
        if not there.is_set():
            refused.append(1)
            raise psycopg.OperationalError("connection refused")
        return await psycopg.AsyncConnection.connect(url)

    send(db, "work", 1, schema=schema)
    worker({"work": lambda context: None}, database=connect_async if worker.kind == "asyncio" else connect)
    eventually(lambda: len(refused) > 3, "it tries again and again")
    there.set()
    eventually(lambda: not db.execute("select from jobs").fetchall(), "the job is done")
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2, lines
    assert lines[0].endswith("can't use the database, and tries again: OperationalError: connection refused")
    assert lines[1].endswith("can use the database again")


def test_hints_wake_a_worker(db: Connection[Any], schema: str, worker: Any, eventually: Any) -> None:
    done: list[Any] = []
    worker({"work": lambda context: done.append(context.job.payload)}, poll_interval=600)
    eventually(lambda: listens(db, schema), "it listens")
    send(db, "work", 1, schema=schema)
    wake(db, schema=schema)
    eventually(lambda: done == [1], "it was woken", 5)
    # Once more, when it has waited, and after a hint that is for others.
    wake(db, "other", schema=schema)
    send(db, "work", 2, schema=schema)
    wake(db, schema=schema)
    eventually(lambda: done == [1, 2], "it was woken again", 5)
    # As executors do when they have admitted or released jobs.
    send(db, "work", 3, schema=schema)
    db.execute("select pg_notify(%s, 'rdefault')", [f"{schema}_wake"])
    eventually(lambda: done == [1, 2, 3], "it was woken again", 5)


def listens(db: Connection[Any], schema: str) -> bool:
    query = "select from pg_stat_activity where query like %s and wait_event = 'ClientRead' and pid <> pg_backend_pid()"
    return bool(db.execute(query, [f'%"{schema}".take(%']).fetchall())


def test_groups_do_not_overlap_in_four_slots(
    db: Connection[Any], schema: str, executor: None, worker: Any, eventually: Any
) -> None:
    running: dict[str, int] = {}
    most: dict[str, int] = {}
    together: list[int] = []
    lock = threading.Lock()

    def handle(context: Context) -> None:
        group = context.job.group
        with lock:
            running[group] = running.get(group, 0) + 1
            most[group] = max(most.get(group, 0), running[group])
            together.append(sum(running.values()))
        time.sleep(0.02)
        context.execute(f"insert into {schema}.effect values (%s, %s)", [context.job.id, group])
        with lock:
            running[group] -= 1

    with db.transaction():
        for number in range(60):
            send(db, "work", number, schema=schema, exclusive_group=f"g{number % 6}", ordered=number % 6 < 3)
    worker({"work": handle}, concurrency=4)
    eventually(lambda: not db.execute("select from jobs").fetchall(), "all are done", 40)
    assert most == {f"g{number}": 1 for number in range(6)}
    assert max(together) > 1
    assert db.execute("select count(*) from effect").fetchone() == (60,)


def test_no_password_in_errors() -> None:
    for text in ("postgres://app:se/cret@host/db", "postgres://app:secret@host:se%63ret/db", "password='secret"):
        with pytest.raises(ValueError, match="percent-encoded") as raised:
            checked(text)
        assert "cret" not in str(raised.value)
        assert raised.value.__cause__ is None


def test_cut_ends_a_wait(url: str) -> None:
    with psycopg.connect(url) as connection:
        timer = threading.Timer(0.2, cut, [connection])
        timer.start()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select pg_sleep(30)")
        timer.join()
        assert connection.closed
        cut(connection)  # Once more does no harm.


def test_logs_have_no_texts_of_errors(
    db: Connection[Any], schema: str, worker: Any, eventually: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(context: Context) -> None:
        raise ValueError("the secret")

    caplog.set_level(logging.INFO)
    send(db, "work", {"password": "secret"}, schema=schema)
    worker({"work": handle})
    eventually(lambda: "failed at attempt 1 of 10: ValueError" in caplog.text, "the failure is logged")
    assert "secret" not in caplog.text
