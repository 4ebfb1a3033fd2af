"""The tasks."""

from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import DataError, connection, connections, router, transaction

from jobwright import Fatal, Later

from .models import Effect

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task


@task
def add(a: int, b: int) -> int:
    return a + b


@task(takes_context=True)
def record(context: Any, note: str, fail_at: int = 0) -> dict[str, Any]:
    """Writes with the ORM, and fails at this attempt."""
    Effect.objects.create(job=UUID(context.task_result.id), note=note)
    assert connections[router.db_for_write(Effect)].in_atomic_block
    if context.attempt == fail_at:
        raise LookupError(f"attempt {context.attempt}")
    add.enqueue(1, 2)
    return {"attempt": context.attempt}


@task
def fails() -> None:
    raise LookupError("always")


@task(takes_context=True)
def ends(context: Any, outcome: str) -> None:
    """Writes, and ends in this way."""
    Effect.objects.create(job=UUID(context.task_result.id), note=outcome)
    if outcome == "set_rollback":
        transaction.set_rollback(True)
    elif outcome == "later":
        raise Later(3600)
    elif outcome == "fatal":
        raise Fatal("no such customer")
    else:
        try:
            with transaction.atomic():
                Effect.objects.create(job=UUID(context.task_result.id), note="undone")
                with connection.cursor() as cursor:
                    cursor.execute("select 1 / 0")
        except DataError:
            pass


@task
def waits(key: int) -> None:
    """Until no other session has this lock."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_advisory_xact_lock_shared(%s)", [key])


@task(queue_name="mail", priority=7)
async def in_loop(note: str) -> str:
    count = await sync_to_async(Effect.objects.count)()
    return f"{note} {count}"
