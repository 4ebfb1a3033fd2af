"""Transactions of Django around the sending and the running of tasks."""

import zlib
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django_site import WORKER
from psycopg import Connection

pytest.importorskip("django")


def test_a_request_that_fails_enqueues_nothing(run: Callable[..., str], db: Connection[Any]) -> None:
    """With ATOMIC_REQUESTS."""
    said = run("""
import logging
from django.test import Client
logging.disable()
client = Client(raise_request_exception=False)
print(client.get("/enqueue?fail=1").status_code, client.get("/enqueue").status_code)
""")
    assert said == "500 200"
    assert db.execute("select count(*) from jobs").fetchone() == (1,)


def test_a_transaction_wakes_once_for_each_queue(run: Callable[..., str], schema: str) -> None:
    said = run(f"""
import os
import psycopg
from django_project.jobs import in_loop
heard = []
listener = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
listener.add_notify_handler(lambda notification: heard.append(notification.payload))
listener.execute('listen "{schema}_wake"')
try:
    with transaction.atomic():
        add.enqueue(1, 2)
        raise LookupError
except LookupError:
    pass
with transaction.atomic():
    for _ in range(3):
        add.enqueue(1, 2)
        try:
            with transaction.atomic():
                in_loop.enqueue("undone")
                raise LookupError
        except LookupError:
            pass
add.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(1, 2)
in_loop.enqueue("alone")
listener.execute("select pg_notify('{schema}_wake', 'end')")
while "end" not in heard:
    listener.execute("select 1")
print(*[payload for payload in heard if payload[0] in "qe"])
""")
    assert said == "qdefault qmail end"


def test_tasks_that_end_in_other_ways(
    run: Callable[..., str], manage: Any, db: Connection[Any], executor: None, eventually: Any
) -> None:
    outcomes = ["caught", "fatal", "later", "set_rollback"]
    ids = run(
        """
from django_project.jobs import ends
for outcome in sys.argv[1:]:
    print(ends.enqueue(outcome).id)
""",
        *outcomes,
    ).split()
    manage(*WORKER)
    query = """
        select payload -> 'args' ->> 0, state, attempt, coalesce(reason, errors -> -1 ->> 'error') from jobs order by 1
    """
    wanted = [("fatal", "dead", 1), ("later", "timer", 0), ("set_rollback", "dead", 2)]
    eventually(lambda: [row[:3] for row in db.execute(query).fetchall()] == wanted, "all have ended")
    rows = db.execute(query).fetchall()
    assert rows[0][3] == "no such customer"
    said = run(
        """
from django_project.jobs import ends
for id in sys.argv[1:]:
    result = ends.get_result(id)
    print(result.status, *[error.exception_class.__name__ for error in result.errors])
""",
        *ids,
    )
    error = "JobwrightError"
    assert said.splitlines() == ["SUCCESSFUL", f"FAILED {error}", "READY", f"FAILED {error} {error}"]
    assert "the task returned, but its transaction has to be rolled back" in rows[2][3]
    # An error that an inner atomic() has undone does no harm; nothing else has committed.
    assert db.execute("select note from effect").fetchall() == [("caught",)]


def test_receivers_are_told_after_the_transaction(run: Callable[..., str], db: Connection[Any], executor: None) -> None:
    """What they write when a task has failed stays."""
    said = run("""
import threading
import uuid
from django_project.jobs import ends
from jobwright.django.tasks import task_backends
from jobwright.django.worker import worker
ended = threading.Semaphore(0)
def receiver(sender, task_result, **kwargs):
    Effect.objects.create(job=uuid.uuid4(), note=f"{task_result.task.name} {task_result.status}")
    ended.release()
    raise RuntimeError("a receiver that fails harms no one")
task_finished.connect(receiver)
ends.enqueue("later")
ends.enqueue("fatal")
fails.enqueue()
add.enqueue(1, 2)
with worker(task_backends["default"], poll_interval=0.1, concurrency=1):
    for _ in range(3):
        assert ended.acquire(timeout=20)
""")
    assert said == ""
    assert sorted(row[0] for row in db.execute("select note from effect")) == [
        "add SUCCESSFUL",
        "ends FAILED",
        "fails FAILED",
    ]


def test_several_databases_without_autocommit(
    run: Callable[..., str], manage: Any, db: Connection[Any], eventually: Any
) -> None:
    """The default database can't be used, so nothing uses it; a router has the ORM write where the jobs are."""
    run(
        """
from django.db import connections
record.enqueue("undone")
connections["jobs"].rollback()
record.enqueue("kept")
connections["jobs"].commit()
""",
        settings="settings_many",
    )
    assert db.execute("select payload -> 'args' ->> 0, state from jobs").fetchall() == [("kept", "waiting")]
    manage(*WORKER, settings="settings_many")
    eventually(lambda: not db.execute("select from jobs").fetchall(), "it is done, and the task that it enqueued")
    assert db.execute("select note from effect").fetchall() == [("kept",)]


def test_tokens_are_not_in_the_texts_of_statements(
    run: Callable[..., str], manage: Any, db: Connection[Any], url: str, schema: str, eventually: Any
) -> None:
    """Django's own cursors put parameters into the text."""
    key = zlib.crc32(schema.encode())
    with psycopg.connect(url) as gate, psycopg.connect(url) as other:
        gate.execute("select pg_advisory_xact_lock(%s)", [key])
        run("from django_project.jobs import waits\nwaits.enqueue(int(sys.argv[1]))", str(key))
        worker = manage(*WORKER)
        waiting = "select query from pg_stat_activity where wait_event_type = 'Lock' and query like %s"
        eventually(lambda: db.execute(waiting, [f"%lock_shared({key})%"]).fetchall(), "the task waits")
        other.execute(f"select from {schema}.external_job for update")
        # It is stopped while it works: it ends its task first.
        worker.terminate()
        gate.rollback()
        text = eventually(lambda: db.execute(waiting, [f'%"{schema}".done(%']).fetchall(), "the end waits")
        assert text[0][0].startswith(f'select "{schema}".done($1, $2, ')
    assert worker.wait(20) == 0
    assert db.execute("select count(*) from jobs").fetchone() == (0,)
