"""Tasks of Django: sent in its transactions, and run in one with their ends."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django_site import WORKER
from psycopg import Connection

django = pytest.importorskip("django")


def test_a_task_is_enqueued_with_the_transaction(run: Callable[..., str], db: Connection[Any]) -> None:
    run("""
with transaction.atomic():
    add.using(queue_name="mail", priority=-100).enqueue(1, b=2)
add.using(run_after=timezone.now() + timedelta(hours=1), priority=100).enqueue(3, 4)
try:
    with transaction.atomic():
        add.enqueue(5, 6)
        raise LookupError
except LookupError:
    pass
""")
    rows = db.execute(
        "select kind, queue, state, priority, max_attempts, payload from jobs order by priority"
    ).fetchall()
    content = {"task": "django_project.jobs.add", "backend": "default"}
    assert rows == [
        ("django-task", "mail", "waiting", -100, 2, {**content, "args": [1], "kwargs": {"b": 2}}),
        ("django-task", "default", "timer", 100, 2, {**content, "args": [3, 4], "kwargs": {}}),
    ]
    due = db.execute("select due_at - now() from jobs where state = 'timer'").fetchall()[0][0]
    assert timedelta(minutes=55) < due <= timedelta(hours=1)


def test_a_worker_runs_tasks_each_in_one_transaction(
    run: Callable[..., str], manage: Any, db: Connection[Any], executor: None, eventually: Any
) -> None:
    ids = run("""
print(record.enqueue("good").id, record.enqueue("again", fail_at=1).id, fails.enqueue().id, in_loop.enqueue("loop").id)
""").split()
    worker = manage(*WORKER)
    eventually(
        lambda: [row[0] for row in db.execute("select state from jobs").fetchall()] == ["dead"], "all have ended", 30
    )
    assert sorted(db.execute("select job::text, note from effect").fetchall()) == sorted(
        [(ids[0], "good"), (ids[1], "again")]
    )
    # Two tasks sent a third one each, in the attempt that committed.
    assert db.execute("select count(*) from result").fetchone() == (5,)
    said = run(
        """
results = [task.get_result(id) for task, id in zip([record, record, fails, in_loop], sys.argv[1:])]
for result in results:
    end = result.return_value if result.status == "SUCCESSFUL" else result.errors[-1].exception_class.__name__
    print(result.status, result.attempts, result.is_finished, end)
assert results[0].args == ["good"] and results[1].kwargs == {"fail_at": 1}
assert results[3].task.priority == 7 and results[3].task.queue_name == "mail"
assert results[0].started_at >= results[0].enqueued_at and results[0].finished_at >= results[0].started_at
assert len(results[2].errors) == 2 and "in fails" in results[2].errors[0].traceback
""",
        *ids,
    ).splitlines()
    assert said[0] == "SUCCESSFUL 1 True {'attempt': 1}"
    assert said[1] == "SUCCESSFUL 2 True {'attempt': 2}"
    assert said[2] == "FAILED 2 True LookupError"
    assert said[3].startswith("SUCCESSFUL 1 True loop ")
    worker.terminate()
    assert worker.wait(20) == 0


def test_states_of_a_task(run: Callable[..., str], db: Connection[Any], schema: str) -> None:
    said = run(f"""
waits = add.enqueue(1, 2)
print(waits.status, add.get_result(waits.id).status)
with connection.cursor() as cursor:
    cursor.execute("select count(*) from {schema}.take('default', 'test')")
waits.refresh()
print(waits.status, waits.attempts)
for id in ("0193e5d4-0000-7000-8000-000000000000", "no id"):
    try:
        add.get_result(id)
    except TaskResultDoesNotExist:
        print("none")
""")
    assert said.splitlines() == ["READY READY", "RUNNING 1", "none", "none"]


def test_tasks_wake_a_worker_after_the_commit(
    run: Callable[..., str], manage: Any, db: Connection[Any], schema: str, eventually: Any
) -> None:
    manage("jobwright_worker", "--poll-interval", "600")
    takes = "select from pg_stat_activity where query like %s and wait_event = 'ClientRead' and pid <> pg_backend_pid()"
    eventually(lambda: db.execute(takes, [f'%"{schema}".take(%']).fetchall(), "it listens")
    began = time.monotonic()
    run('with transaction.atomic():\n    record.enqueue("woken")')
    eventually(lambda: db.execute("select note from effect").fetchall() == [("woken",)], "it was woken", 20)
    assert time.monotonic() < began + 20


def test_idle_connections_that_were_lost_cost_no_attempt(
    run: Callable[..., str], manage: Any, db: Connection[Any], schema: str, eventually: Any
) -> None:
    manage(*WORKER, "--concurrency", "1")
    for note in ("first", "second"):
        id = run(f'print(record.enqueue("{note}").id)')
        eventually(lambda id=id: db.execute("select from effect where job = %s", [id]).fetchall(), "it is done")
        kept = db.execute("select payload -> 'worker_ids' from result where job_id = %s", [id]).fetchall()
        assert len(kept[0][0]) == 1
        db.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s", [schema])


def test_a_task_that_this_worker_has_not_is_a_dead_letter(
    run: Callable[..., str], manage: Any, db: Connection[Any], eventually: Any
) -> None:
    run("add.enqueue(1, 2)")
    db.execute("update job set payload = jsonb_set(payload, '{task}', '\"gone.away\"')")
    manage(*WORKER)
    reason = eventually(lambda: db.execute("select reason from jobs where state = 'dead'").fetchall(), "it is dead")
    assert reason[0][0].startswith("ModuleNotFoundError: No module named 'gone' (this worker has no such task)")


def test_signals_of_tasks(run: Callable[..., str], db: Connection[Any], executor: None) -> None:
    said = run("""
import threading
from jobwright.django.tasks import task_started, task_backends
from jobwright.django.worker import worker
ended = threading.Semaphore(0)
def tell(name):
    def receiver(sender, task_result, **kwargs):
        print(name, task_result.task.name, task_result.status, task_result.attempts, flush=True)
        if name == "finished":
            ended.release()
    return receiver
receivers = [tell("enqueued"), tell("started"), tell("finished")]
task_enqueued.connect(receivers[0])
task_started.connect(receivers[1])
task_finished.connect(receivers[2])
fails.enqueue()
made = worker(task_backends["default"], poll_interval=0.1)
with made:
    assert ended.acquire(timeout=20)
""")
    assert said.splitlines() == [
        "enqueued fails READY 0",
        "started fails RUNNING 1",
        "started fails RUNNING 2",
        "finished fails FAILED 2",
    ]


def test_options_that_can_not_be_used(run: Callable[..., str]) -> None:
    said = run("""
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from jobwright.django import Backend
assert run_checks() == [], run_checks()
for options in ({"SCHEME": "x"}, {"SCHEMA": "pg_x"}, {"KEEP_RESULTS": -1}):
    try:
        Backend("default", {"OPTIONS": options})
    except ImproperlyConfigured as error:
        print(error)
""")
    lines = said.splitlines()
    assert lines[0].startswith("TASKS['default']: OPTIONS has 'SCHEME'; known are DATABASE, SCHEMA,")
    assert "the schema 'pg_x' can't be used" in lines[1]
    assert "KEEP_RESULTS is -1 s" in lines[2]
