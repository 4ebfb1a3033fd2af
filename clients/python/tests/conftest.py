"""A schema of its own for each test, the executor that serves it, and workers of both kinds."""

import os
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django_site import manage, run
from harness import Running, start_worker
from psycopg import Connection

__all__ = ["manage", "run"]

CONFIG = """
# Timers, leases and groups are looked at often.
[executor]
lease = "2s"
poll_interval = "100ms"
[queues.default]
external = true
"""


def environment(url: str, schema: str) -> dict[str, str]:
    """That of the program, which refuses variables that it does not know."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("JOBWRIGHT_")}
    return {**own, "DATABASE_URL": url, "JOBWRIGHT_DATABASE_SCHEMA": schema}


def variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        pytest.exit(f"{name} is not set: the first lines of clients/python/check.sh name it", returncode=2)
    return value


@pytest.fixture(scope="session")
def url() -> str:
    return variable("DATABASE_URL")


@pytest.fixture(scope="session")
def program() -> str:
    return variable("JOBWRIGHT_BIN")


@pytest.fixture
def schema(url: str, program: str) -> Iterator[str]:
    """A schema of jobwright, with the tables that the tests write."""
    name = f"py_{uuid.uuid4().hex[:12]}"
    done = subprocess.run(
        [program, "migrate"], env=environment(url, name), capture_output=True, text=True, timeout=60, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"create table {name}.effect (job uuid, note text)")
        # A second start of the same attempt is an error.
        connection.execute(
            f"create table {name}.start (job uuid, attempt int, worker text, at timestamptz default clock_timestamp(),"
            " primary key (job, attempt))"
        )
        yield name
        connection.execute("set client_min_messages = warning")
        connection.execute(f"drop schema {name} cascade")


@pytest.fixture
def executor(url: str, program: str, schema: str, tmp_path: Path) -> Iterator[None]:
    """`jobwright worker`, which makes timers due, ends leases and admits groups."""
    config = tmp_path / "jobwright.toml"
    config.write_text(CONFIG)
    config.chmod(0o600)
    process = subprocess.Popen(
        [program, "-q", "--config", str(config), "worker"],
        env=environment(url, schema),
        stdout=subprocess.DEVNULL,
        cwd="/",
    )
    try:
        yield
        assert process.poll() is None, "the executor has ended"
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(15)


@pytest.fixture
def db(url: str, schema: str) -> Iterator[Connection[Any]]:
    """A connection that commits each statement, with jobwright's tables and the test's on its path."""
    with psycopg.connect(url, autocommit=True, options=f"-c search_path={schema},public") as connection:
        yield connection


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """Waits until a function returns something true, and returns that."""

    def wait(function: Callable[[], Any], what: str, seconds: float = 20.0) -> Any:
        ends = time.monotonic() + seconds
        pause = 0.01
        while not (found := function()):
            assert time.monotonic() < ends, f"{what}: not within {seconds:g} s"
            time.sleep(pause)
            pause = min(0.1, pause * 1.3)
        return found

    return wait


@pytest.fixture(params=["threads", "asyncio"])
def worker(request: pytest.FixtureRequest, url: str, schema: str) -> Iterator[Callable[..., Running]]:
    """Starts workers of one kind, and stops them after the test."""
    running: list[Running] = []

    def start(handlers: dict[str, Callable[..., Any]], database: Any = None, **options: Any) -> Running:
        options = {"poll_interval": 0.1, "schema": schema, "cancel_grace": 1.0, **options}
        made = start_worker(request.param, database or url, handlers, options)
        running.append(made)
        return made

    start.kind = request.param  # type: ignore[attr-defined]
    yield start
    for one in running:
        one.stop(0.0)
