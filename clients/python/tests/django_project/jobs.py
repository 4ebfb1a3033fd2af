"""The tasks."""

from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import connection

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
    assert connection.in_atomic_block
    if context.attempt == fail_at:
        raise LookupError(f"attempt {context.attempt}")
    add.enqueue(1, 2)
    return {"attempt": context.attempt}


@task
def fails() -> None:
    raise LookupError("always")


@task(queue_name="mail", priority=7)
async def in_loop(note: str) -> str:
    count = await sync_to_async(Effect.objects.count)()
    return f"{note} {count}"
