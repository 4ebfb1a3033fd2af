"""A worker that stops takes no more, gives back the jobs that are not begun, and waits a while for the rest."""

import threading
import time
from typing import Any

import psycopg
import pytest
from harness import Context
from psycopg import Connection

from jobwright import send


def waiting(db: Connection[Any]) -> list[Any]:
    return db.execute("select state, attempt from jobs order by seq").fetchall()


def test_stop_waits_for_handlers_and_takes_no_more(
    db: Connection[Any], schema: str, worker: Any, eventually: Any
) -> None:
    begun = threading.Semaphore(0)
    proceed = threading.Event()

    def handle(context: Context) -> None:
        begun.release()
        proceed.wait(20)

    for _ in range(4):
        send(db, "work", 1, schema=schema)
    running = worker({"work": handle}, concurrency=2)
    assert begun.acquire(timeout=20)
    assert begun.acquire(timeout=20)
    stopped: list[bool] = []
    stopping = threading.Thread(target=lambda: stopped.append(running.stop(30)))
    stopping.start()
    # The taker ends first, and its connection with it.
    eventually(lambda: not takers(db, schema), "it takes no more")
    assert not stopped
    proceed.set()
    stopping.join(30)
    assert stopped == [True]
    assert waiting(db) == [("waiting", 0)] * 2


def takers(db: Connection[Any], schema: str) -> list[Any]:
    return db.execute(
        "select pid from pg_stat_activity where query like %s and pid <> pg_backend_pid()", [f'%"{schema}".take(%']
    ).fetchall()


def test_what_is_not_begun_is_given_back(
    db: Connection[Any], url: str, schema: str, worker: Any, eventually: Any
) -> None:
    """The connections for handlers can't be opened, so that the jobs are taken and don't begin."""
    allowed = threading.Semaphore(1)  # for the taker

    def connect() -> Connection[Any]:
        if not allowed.acquire(blocking=False):
            raise psycopg.OperationalError("too many connections")
        return psycopg.connect(url)

    async def connect_async() -> psycopg.AsyncConnection[Any]:
        if not allowed.acquire(blocking=False):
            raise psycopg.OperationalError("too many connections")
        return await psycopg.AsyncConnection.connect(url)

    for _ in range(2):
        send(db, "work", 1, schema=schema)
    is_async = "asyncio" in worker.kind
    ran: list[Any] = []
    database = connect_async if is_async else connect
    running = worker({"work": lambda context: ran.append(context.job.id)}, database=database, concurrency=2)
    eventually(lambda: waiting(db) == [("external", 1)] * 2, "both are taken")
    assert running.stop(20)
    assert waiting(db) == [("waiting", 0)] * 2
    # They don't begin afterwards, either.
    for _ in range(9):
        allowed.release()
    eventually(lambda: not [t for t in threading.enumerate() if t.name.startswith("jobwright-slot")], "slots end")
    assert not ran


def test_a_handler_that_outlasts_the_grace_is_told_and_its_job_given_back(
    db: Connection[Any], schema: str, worker: Any, eventually: Any
) -> None:
    begun = threading.Event()

    def handle(context: Context) -> None:
        context.execute(f"insert into {schema}.effect values (%s, 'work')", [context.job.id])
        begun.set()
        ends = time.monotonic() + 20
        while not context.job.cancelled.is_set() and time.monotonic() < ends:
            threading.Event().wait(0.02)
        raise InterruptedError("told to end")

    send(db, "work", 1, schema=schema)
    running = worker({"work": handle}, lease=600)
    assert begun.wait(20)
    assert running.stop(0.1)
    assert waiting(db) == [("waiting", 0)]
    assert db.execute("select count(*) from effect").fetchone() == (0,)


def test_a_handler_in_a_statement_that_takes_too_long_is_cut_off(
    db: Connection[Any], schema: str, worker: Any, eventually: Any
) -> None:
    begun = threading.Event()

    def handle(context: Context) -> None:
        begun.set()
        context.execute("select pg_sleep(50)")

    send(db, "work", 1, schema=schema)
    running = worker({"work": handle}, lease=600, cancel_grace=0.3)
    assert begun.wait(20)
    began = time.monotonic()
    assert running.stop(0.1)
    assert time.monotonic() < began + 10
    assert waiting(db) == [("waiting", 0)]


def test_what_is_just_being_taken_when_it_stops_is_given_back(
    db: Connection[Any], url: str, schema: str, worker: Any, eventually: Any
) -> None:
    ran: list[Any] = []
    with psycopg.connect(url) as other:
        other.execute(f"lock table {schema}.external_job in share row exclusive mode")
        for _ in range(3):
            send(db, "work", 1, schema=schema)
        running = worker({"work": lambda context: ran.append(1)}, concurrency=3, lease=600)
        waits = "select from pg_stat_activity where wait_event_type = 'Lock' and query like %s"
        eventually(lambda: db.execute(waits, [f'%"{schema}".take(%']).fetchall(), "it is taking")
        stopping = threading.Thread(target=running.stop)
        stopping.start()
        eventually(lambda: getattr(running, "worker", running)._stopped, "it stops")
    stopping.join(30)
    assert not stopping.is_alive()
    eventually(lambda: len(ran) + len(waiting(db)) == 3, "each has run or waits")
    assert waiting(db) == [("waiting", 0)] * (3 - len(ran))


def test_a_worker_is_started_once_and_needs_handlers(url: str, schema: str, worker: Any) -> None:
    with pytest.raises(ValueError, match="no handlers"):
        worker({})
    running = worker({"work": lambda context: None})
    assert running.stop(5)
    assert running.stop(5)
