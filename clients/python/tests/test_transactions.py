"""What a handler may do with its transaction, and what would separate its work from the end of its job."""

import threading
from typing import Any

import psycopg
import pytest
from harness import Context
from psycopg import Connection
from psycopg.rows import dict_row

from jobwright import send


def test_a_nested_transaction_is_rolled_back_alone(
    db: Connection[Any], schema: str, worker: Any, eventually: Any
) -> None:
    def handle(context: Context) -> None:
        context.execute(f"insert into {schema}.effect values (%s, 'outer')", [context.job.id])
        with pytest.raises(psycopg.errors.DivisionByZero):
            context.nested(f"insert into {schema}.effect select null, (1 / 0)::text")
        context.nested(f"insert into {schema}.effect values (null, 'inner')")

    send(db, "work", 1, schema=schema)
    worker({"work": handle})
    eventually(lambda: not db.execute("select from jobs").fetchall(), "it is done")
    assert db.execute("select note from effect order by note").fetchall() == [("inner",), ("outer",)]


def test_a_transaction_that_can_not_end_the_job_is_a_failure(
    db: Connection[Any], schema: str, worker: Any, eventually: Any
) -> None:
    """Each would lose the end of the job without an error, and its work or its end would stand alone."""

    def write(context: Context) -> None:
        context.execute(f"insert into {schema}.effect values (%s, %s)", [context.job.id, context.job.kind])

    def ignores(context: Context) -> None:
        write(context)
        with pytest.raises(psycopg.errors.DivisionByZero):
            context.execute("select 1 / 0")

    def rolls_back(context: Context) -> None:
        write(context)
        context.execute("rollback")

    def raises_rollback(context: Context) -> None:
        write(context)
        raise psycopg.Rollback

    handlers = {"a": ignores, "b": rolls_back, "c": raises_rollback, "good": write}
    for kind in handlers:
        send(db, kind, 1, schema=schema)
    worker(handlers)
    query = "select kind, errors -> 0 ->> 'error' from jobs where state = 'timer' order by kind"
    errors = eventually(lambda: len(found := db.execute(query).fetchall()) == 3 and dict(found), "all have failed")
    assert "a statement of the handler failed, and the handler returned nevertheless" in errors["a"]
    assert "the handler has ended the transaction" in errors["b"]
    assert "the handler raised psycopg.Rollback" in errors["c"]
    eventually(lambda: db.execute("select note from effect").fetchall() == [("good",)], "only the good one commits")


def test_tokens_are_not_in_the_texts_of_statements(
    db: Connection[Any], url: str, schema: str, worker: Any, eventually: Any
) -> None:
    """The application's connections put parameters into the text, return rows as dicts, and don't autocommit."""
    own: dict[str, Any] = {"cursor_factory": psycopg.ClientCursor, "row_factory": dict_row}

    def connect() -> Any:
        return psycopg.connect(url, **own)

    async def connect_async() -> Any:
        return await psycopg.AsyncConnection.connect(url, **{**own, "cursor_factory": psycopg.AsyncClientCursor})

    begun, proceed = threading.Event(), threading.Event()

    def handle(context: Context) -> None:
        begun.set()
        proceed.wait(20)

    send(db, "work", 1, schema=schema)
    worker({"work": handle}, database=connect_async if worker.kind == "asyncio" else connect, lease=600)
    assert begun.wait(20)
    with psycopg.connect(url) as other:
        other.execute(f"select from {schema}.external_job for update")
        proceed.set()
        waits = "select query from pg_stat_activity where wait_event_type = 'Lock' and query like %s"
        text = eventually(lambda: db.execute(waits, [f'%"{schema}".done(%']).fetchall(), "the end waits")
        assert text[0][0].startswith(f'select "{schema}".done($1, $2, ')
    eventually(lambda: not db.execute("select from jobs").fetchall(), "it is done")


def test_a_payload_that_is_not_json_is_an_error_of_the_sender_alone(db: Connection[Any], schema: str) -> None:
    with db.transaction():
        with pytest.raises(TypeError, match="not JSON serializable"):
            send(db, "work", {"file": object()}, schema=schema)
        send(db, "work", 2, schema=schema)
        with pytest.raises(psycopg.DataError), db.transaction():
            send(db, "work", "\0", schema=schema)
    assert db.execute("select payload from jobs").fetchall() == [(2,)]


def test_content_that_can_not_be_read_is_a_dead_letter_of_its_own(
    db: Connection[Any], schema: str, worker: Any, eventually: Any
) -> None:
    """Python refuses to read integers of more than some thousand digits."""
    done: list[Any] = []
    with db.transaction():
        db.execute("select send('work', repeat('9', 5000)::jsonb)")
        for number in range(3):
            send(db, "work", number, schema=schema)
    worker({"work": lambda context: done.append(context.job.payload)})
    eventually(lambda: sorted(done) == [0, 1, 2], "the others are done")
    query = "select attempt, reason from jobs where state = 'dead'"
    ((attempt, reason),) = eventually(lambda: db.execute(query).fetchall(), "it is a dead letter")
    assert (attempt, reason[:41]) == (1, "its JSON can't be read: ValueError: Excee")


def test_texts_of_errors_are_stored_whatever_is_in_them(
    db: Connection[Any], schema: str, worker: Any, eventually: Any
) -> None:
    def handle(context: Context) -> None:
        raise ValueError("\0\ud800€" + "€" * 1_000_000 + " the end")

    send(db, "work", 1, schema=schema)
    worker({"work": handle})
    query = "select errors -> 0 ->> 'error', errors -> 0 ->> 'detail' from jobs where state = 'timer'"
    ((error, detail),) = eventually(lambda: db.execute(query).fetchall(), "it has failed")
    assert error.startswith("ValueError: \\0\\ud800€€")
    assert len(error.encode()) > 900
    assert detail.endswith("€ the end\n")
