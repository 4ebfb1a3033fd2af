"""A job's writes, its messages and its end are one commit, or none of them happened."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from harness import Context
from psycopg import Connection

from jobwright import Done, Fatal, Later, send


def states(db: Connection[Any]) -> dict[str, str]:
    return dict(db.execute("select kind, state from jobs order by kind").fetchall())


def test_writes_messages_and_end_are_one_commit(
    db: Connection[Any], schema: str, url: str, worker: Any, eventually: Any
) -> None:
    seen: list[Any] = []
    proceed = threading.Event()

    def handle(context: Context) -> None:
        context.execute(f"insert into {schema}.effect values (%s, 'work')", [context.job.id])
        context.send("next", {"n": 1}, schema=schema, queue="other")
        seen.append(context.job)
        proceed.wait(20)

    with db.transaction():
        id = send(db, "first", {"order": 42}, schema=schema, tenant="acme", headers={"trace": "x"}, priority=3)
    worker({"first": handle})
    eventually(lambda: seen, "the handler begins")
    # Until the commit nothing is to be seen.
    assert states(db) == {"first": "external"}
    assert db.execute("select count(*) from effect").fetchone() == (0,)
    proceed.set()
    eventually(lambda: states(db) == {"next": "waiting"}, "the job is gone and its message is there")
    assert db.execute("select job from effect").fetchall() == [(id,)]
    job = seen[0]
    assert (job.id, job.kind, job.queue, job.payload, job.body) == (id, "first", "default", {"order": 42}, None)
    assert (job.attempt, job.max_attempts, job.tenant, job.priority) == (1, 10, "acme", 3)
    assert dict(job.headers) == {"trace": "x"}
    assert "token" not in repr(job)
    assert "order" not in repr(job)


def test_an_error_rolls_back_and_is_recorded(db: Connection[Any], schema: str, worker: Any, eventually: Any) -> None:
    def handle(context: Context) -> None:
        context.execute(f"insert into {schema}.effect values (%s, 'work')", [context.job.id])
        context.send("next", None, schema=schema)
        raise RuntimeError("no ink \0 left")

    send(db, "print", 1, schema=schema)
    worker({"print": handle})
    eventually(lambda: states(db) == {"print": "timer"}, "the job waits for its retry")
    assert db.execute("select count(*) from effect").fetchone() == (0,)
    ((error, detail),) = db.execute("select errors->0->>'error', errors->0->>'detail' from jobs").fetchall()
    assert error == "RuntimeError: no ink \\0 left"
    assert "in handle" in detail


def test_the_last_attempt_leaves_a_dead_letter(db: Connection[Any], schema: str, worker: Any, eventually: Any) -> None:
    def handle(context: Context) -> None:
        raise KeyError("missing")

    send(db, "print", 1, schema=schema, max_attempts=1)
    worker({"print": handle})
    eventually(lambda: states(db) == {"print": "dead"}, "it is a dead letter")


def test_what_the_database_refuses_at_the_end_is_a_failure(
    db: Connection[Any], schema: str, worker: Any, eventually: Any
) -> None:
    db.execute("create table parent (id int primary key)")
    db.execute("create table child (id int references parent deferrable initially deferred)")

    def handle(context: Context) -> None:
        context.execute(f"insert into {schema}.child values (7)")

    send(db, "print", 1, schema=schema)
    send(db, "result", 1, schema=schema)
    worker({"print": handle, "result": lambda context: object()})
    eventually(lambda: states(db) == {"print": "timer", "result": "timer"}, "both failed")
    errors = [row[0] for row in db.execute("select errors->0->>'error' from jobs order by kind")]
    assert errors[0].startswith("psycopg.errors.ForeignKeyViolation: ")
    assert errors[1].startswith("TypeError: ")


@pytest.mark.parametrize("raised", [True, False], ids=["raised", "returned"])
def test_later_and_fatal(raised: bool, db: Connection[Any], schema: str, worker: Any, eventually: Any) -> None:
    outcomes = {"later": Later(timedelta(hours=1)), "fatal": Fatal("no such customer")}

    def handle(context: Context) -> Any:
        context.execute(f"insert into {schema}.effect values (%s, 'work')", [context.job.id])
        outcome = outcomes[context.job.kind]
        if raised:
            raise outcome
        return outcome

    for kind in outcomes:
        send(db, kind, 1, schema=schema)
    worker(dict.fromkeys(outcomes, handle))
    eventually(lambda: states(db) == {"fatal": "dead", "later": "timer"}, "both have ended")
    # Returned, they commit the work.
    assert db.execute("select count(*) from effect").fetchone() == (0 if raised else 2,)
    rows = db.execute(
        "select attempt, due_at > now() + interval '50 minutes', reason from jobs order by kind"
    ).fetchall()
    assert rows == [(1, None, "no such customer"), (0, True, None)]


def test_results_are_kept(db: Connection[Any], schema: str, worker: Any, eventually: Any) -> None:
    returns = {"plain": {"sum": 3}, "own": Done([1, 2], keep=7200), "none": None}
    ids = {kind: send(db, kind, None, schema=schema) for kind in returns}
    worker({kind: lambda context: returns[context.job.kind] for kind in returns}, keep=timedelta(hours=1))
    eventually(lambda: not states(db), "all are done")
    rows = db.execute("select job_id, payload, expires_at - created_at > interval '90 minutes' from result").fetchall()
    assert sorted(rows, key=str) == sorted([(ids["plain"], {"sum": 3}, False), (ids["own"], [1, 2], True)], key=str)


def test_progress_stays_when_the_work_is_rolled_back(
    db: Connection[Any], schema: str, executor: None, worker: Any, eventually: Any
) -> None:
    seen: list[tuple[int, Any, Any]] = []

    def handle(context: Context) -> None:
        seen.append((context.job.attempt, context.job.checkpoint, context.job.last_error))
        if context.job.attempt == 1:
            context.progress(40, checkpoint={"row": 7})
            raise ValueError("first")

    send(db, "import", 1, schema=schema, retry="fixed(100ms)")
    worker({"import": handle})
    eventually(lambda: not states(db), "the second attempt is done")
    assert seen == [(1, None, None), (2, {"row": 7}, "ValueError: first")]


def test_content_other_than_json(db: Connection[Any], schema: str, worker: Any, eventually: Any) -> None:
    seen: list[Any] = []
    send(db, "image", schema=schema, body=b"\x89PNG", content_type="image/png")
    worker({"image": lambda context: seen.append(context.job)})
    eventually(lambda: seen, "it was handled")
    assert (seen[0].payload, seen[0].body, seen[0].content_type) == (None, b"\x89PNG", "image/png")


def test_only_kinds_with_handlers_are_taken(db: Connection[Any], schema: str, worker: Any, eventually: Any) -> None:
    send(db, "foreign", 1, schema=schema)
    send(db, "own", 1, schema=schema)
    worker({"own": lambda context: None})
    eventually(lambda: states(db) == {"foreign": "waiting"}, "only its own kind was taken")
