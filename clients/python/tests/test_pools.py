"""Pools of the application, and PgBouncer."""

import asyncio
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import psycopg_pool
import pytest
from harness import Context
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from jobwright import AsyncWorker, Worker, send


def test_a_pool_of_the_application(db: Connection[Any], url: str, schema: str, eventually: Any) -> None:
    done: list[Any] = []
    with psycopg_pool.ConnectionPool(url, min_size=1, max_size=6, open=True) as pool:
        worker = Worker(pool, schema=schema, concurrency=2, poll_interval=0.1)
        worker.handle("work", lambda job, connection: done.append(job.payload))
        with worker:
            for number in range(20):
                send(db, "work", number, schema=schema)
            eventually(lambda: len(done) == 20, "all are done")
        # The pool gets its connections back as it made them.
        with pool.connection() as connection:
            assert not connection.autocommit
            assert connection.execute("select count(*) from pg_listening_channels()").fetchone() == (0,)


async def pool_main(url: str, schema: str, count: int) -> list[Any]:
    done: list[Any] = []
    async with psycopg_pool.AsyncConnectionPool(url, min_size=1, max_size=6, open=False) as pool:
        worker = AsyncWorker(pool, schema=schema, concurrency=2, poll_interval=0.1)

        async def handle(job: Any, connection: Any) -> None:
            done.append(job.payload)

        worker.handle("work", handle)
        async with worker:
            ends = time.monotonic() + 20
            while len(done) < count and time.monotonic() < ends:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        async with pool.connection() as connection:
            assert not connection.autocommit
    return done


def test_an_async_pool_of_the_application(db: Connection[Any], url: str, schema: str) -> None:
    for number in range(20):
        send(db, "work", number, schema=schema)
    assert sorted(asyncio.run(pool_main(url, schema, 20))) == list(range(20))


def test_a_pool_that_is_too_small_is_refused(url: str) -> None:
    pool = psycopg_pool.ConnectionPool(url, min_size=0, max_size=4, open=False)
    with pytest.raises(ValueError, match=r"4 connections at most, and the worker needs concurrency \+ 3: 5"):
        Worker(pool, concurrency=2)
    Worker(pool, concurrency=1)


def test_jobs_wait_for_a_pool_that_others_have_exhausted(
    db: Connection[Any], url: str, schema: str, eventually: Any, caplog: pytest.LogCaptureFixture
) -> None:
    attempts: list[int] = []
    with psycopg_pool.ConnectionPool(url, min_size=1, max_size=5, open=True) as pool:
        others = [pool.getconn() for _ in range(4)]
        worker = Worker(pool, schema=schema, concurrency=2, lease=600, call_timeout=0.3)
        worker.handle("work", lambda job, connection: attempts.append(job.attempt))
        for _ in range(2):
            send(db, "work", 1, schema=schema)
        with worker:
            # The only connection takes the jobs.
            eventually(lambda: "can't use the database, and tries again: PoolTimeout" in caplog.text, "it says so")
            assert db.execute("select distinct state from jobs").fetchall() == [("external",)]
            for one in others:
                pool.putconn(one)
            eventually(lambda: not db.execute("select from jobs").fetchall(), "both are done")
    assert attempts == [1, 1]


@pytest.fixture
def pooler(url: str) -> Iterator[str]:
    """The URL of PgBouncer in transaction mode with five connections, before the server of the tests."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("there is no pgbouncer here")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = conninfo_to_dict(url)
    target = {"host": server.get("host", "localhost"), "port": server.get("port") or 5432, "user": server.get("user")}
    words = [f"{key}={value}" for key, value in {**target, "password": server.get("password")}.items() if value]
    config = f"""
[databases]
* = {" ".join(words)}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 5
ignore_startup_parameters = extra_float_digits,options
"""
    # It does not run as root.
    user = "nobody" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "pgbouncer.ini")
        file.write_text(config)
        file.chmod(0o600)
        if user is not None:
            for path in (folder, file):
                os.chown(path, pwd.getpwnam(user).pw_uid, -1)
        process = subprocess.Popen([program, "-q", str(file)], user=user)
        try:
            yield make_conninfo(url, host="127.0.0.1", port=port, sslmode="disable")
        finally:
            process.kill()
            process.wait(20)


def test_a_worker_behind_a_transaction_pooler(
    db: Connection[Any], schema: str, pooler: str, worker: Any, eventually: Any
) -> None:
    """More sessions than connections of the server, so that each of them meets the others."""
    lock = threading.Lock()
    started: list[Any] = []

    def handle(context: Context) -> None:
        with lock:
            started.append(context.job.payload)
        context.execute(f"insert into {schema}.effect values (%s, 'work')", [context.job.id])
        context.progress(50)

    eventually(lambda: answers(pooler), "the pooler answers")
    for number in range(40):
        send(db, "work", number, schema=schema)
    # Renewals are among the calls.
    worker({"work": handle}, database=pooler, listen=False, concurrency=4, lease=1)
    eventually(lambda: not db.execute("select from jobs").fetchall(), "all are done")
    assert sorted(started) == list(range(40))
    assert db.execute("select count(*), count(distinct job) from effect").fetchone() == (40, 40)


def answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True
