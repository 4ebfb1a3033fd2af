"""A worker as a role that has the rights of a worker and of a sender, and no others."""

import subprocess
import threading
from typing import Any

import psycopg
import pytest
from conftest import environment
from harness import Context
from psycopg import Connection

from jobwright import Fatal, JobCancelled, Later, cancel, send, wake


@pytest.fixture
def role(db: Connection[Any], url: str, program: str, schema: str) -> Any:
    """Its name. It may take from the queue `default` only, and write the tests' own tables."""
    db.execute(f"create role {schema}")
    try:
        for purpose in (["worker", schema, "--queue", "default"], ["sender", schema]):
            command = [program, "grants", *purpose, "--apply"]
            done = subprocess.run(
                command, env=environment(url, schema), capture_output=True, text=True, timeout=60, cwd="/"
            )
            assert done.returncode == 0, done.stderr
        db.execute(f"grant insert on effect to {schema}")
        yield schema
    finally:
        db.execute(f"drop owned by {schema}")
        db.execute(f"drop role {schema}")


def as_role(url: str, role: str) -> str:
    return psycopg.conninfo.make_conninfo(url, options=f"-c role={role}", application_name=role)


def test_a_worker_needs_no_other_rights(
    db: Connection[Any], url: str, schema: str, role: str, executor: None, worker: Any, eventually: Any
) -> None:
    seen: list[Any] = []
    proceed = threading.Event()

    def handle(context: Context) -> Any:
        job = context.job
        context.execute(f"insert into {schema}.effect values (%s, %s)", [job.id, job.kind])
        if job.kind == "done":
            context.send("sent", 1, schema=schema)
        elif job.kind == "later":
            return Later(3600)
        elif job.kind == "fatal":
            raise Fatal("no such customer")
        elif job.kind == "again" and job.attempt == 1:
            context.progress(40, checkpoint={"row": 7})
            raise ValueError("first")
        elif job.kind == "again":
            seen.append(job.checkpoint)
        elif job.kind == "cancelled":
            seen.append(job.id)
            proceed.wait(20)
            with pytest.raises(JobCancelled):
                context.progress(1)
        return {"kind": job.kind}

    kinds = ["done", "sent", "later", "fatal", "again", "cancelled"]
    with psycopg.connect(as_role(url, role), autocommit=True) as sender:
        ids = {kind: send(sender, kind, 1, schema=schema, retry="fixed(10ms)") for kind in kinds if kind != "sent"}
        wake(sender, schema=schema)
    # Renewals of the job that waits to be cancelled, too.
    running = worker(dict.fromkeys(kinds, handle), database=as_role(url, role), lease=1, keep=60, concurrency=6)
    eventually(lambda: ids["cancelled"] in seen, "it has begun")
    renewed = "select from external_job where id = %s and lease_until > handed_at + interval '1.1 seconds'"
    eventually(lambda: db.execute(renewed, [ids["cancelled"]]).fetchall(), "its lease is renewed")
    cancel(db, ids["cancelled"], schema=schema)
    proceed.set()
    left = {("fatal", "dead"), ("later", "timer")}
    eventually(lambda: set(db.execute("select kind, state from jobs").fetchall()) == left, "all have ended")
    assert {"row": 7} in seen
    done = [row[0] for row in db.execute("select note from effect order by note")]
    assert done == ["again", "done", "later", "sent"]
    assert db.execute("select count(*) from result").fetchone() == (3,)
    assert running.stop(10)
    assert db.execute("select count(*) from terminating_handler").fetchone() == (0,)


def test_a_queue_that_was_not_granted_is_named(
    url: str, schema: str, role: str, worker: Any, eventually: Any, caplog: pytest.LogCaptureFixture
) -> None:
    worker({"work": lambda context: None}, database=as_role(url, role), queue="other")
    eventually(lambda: caplog.messages, "it says so")
    assert "may not take jobs from the queue 'other'" in caplog.messages[0]
