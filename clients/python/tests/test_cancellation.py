"""Cancelled tasks of asyncio: a cancellation reaches its handler, goes on to whoever waits, and ends no job as done."""

import asyncio
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from jobwright import AsyncJob, AsyncWorker, send


class Site:
    """A worker with one handler that never ends by itself, and notes how it ended."""

    def __init__(self, url: str, schema: str, swallows: bool = False) -> None:
        self.worker = AsyncWorker(url, schema=schema, cancel_grace=0.2, lease=600)
        self.begun = asyncio.Event()
        self.ends: list[str] = []

        @self.worker.handler("work")
        async def work(job: AsyncJob, connection: psycopg.AsyncConnection[Any]) -> None:
            await connection.execute(f"insert into {schema}.effect values (%s, 'work')", [job.id])
            self.begun.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.ends.append("cancelled")
                if not swallows:
                    raise


def given_back(db: Connection[Any]) -> bool:
    assert db.execute("select count(*) from effect").fetchone() == (0,)
    return db.execute("select state, attempt from jobs").fetchall() == [("waiting", 0)]


@pytest.mark.parametrize("swallows", [False, True])
def test_a_handler_that_is_cancelled_is_not_done(swallows: bool, db: Connection[Any], url: str, schema: str) -> None:
    async def main() -> list[str]:
        site = Site(url, schema, swallows)
        await site.worker.start()
        await asyncio.wait_for(site.begun.wait(), 20)
        assert await site.worker.stop(0.1)
        return site.ends

    send(db, "work", 1, schema=schema)
    assert asyncio.run(main()) == ["cancelled"]
    assert given_back(db)


def test_a_worker_whose_task_is_cancelled_gives_its_jobs_back(db: Connection[Any], url: str, schema: str) -> None:
    async def main() -> list[str]:
        site = Site(url, schema)
        running = asyncio.create_task(site.worker.run())
        await asyncio.wait_for(site.begun.wait(), 20)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
        return site.ends

    send(db, "work", 1, schema=schema)
    assert asyncio.run(main()) == ["cancelled"]
    assert given_back(db)


def test_a_stop_that_is_cancelled_leaves_nothing_behind(db: Connection[Any], url: str, schema: str) -> None:
    async def main() -> list[str]:
        site = Site(url, schema)
        await site.worker.start()
        await asyncio.wait_for(site.begun.wait(), 20)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(site.worker.stop(60), 0.3)
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
        return site.ends

    send(db, "work", 1, schema=schema)
    assert asyncio.run(main()) == ["cancelled"]
    # Its lease goes on, as after a crash.
    assert db.execute("select state from jobs").fetchall() == [("external",)]
    assert db.execute("select count(*) from effect").fetchone() == (0,)


def test_a_handler_that_raises_a_cancellation_has_failed(db: Connection[Any], url: str, schema: str) -> None:
    async def main() -> None:
        worker = AsyncWorker(url, schema=schema, poll_interval=0.1, concurrency=1)
        ended = asyncio.Event()

        @worker.handler("work")
        async def work(job: AsyncJob, connection: psycopg.AsyncConnection[Any]) -> None:
            task = asyncio.create_task(asyncio.sleep(60))
            task.cancel()
            await task

        @worker.handler("next")
        async def after(job: AsyncJob, connection: psycopg.AsyncConnection[Any]) -> None:
            ended.set()

        async with worker:
            await asyncio.wait_for(ended.wait(), 20)

    send(db, "work", 1, schema=schema)
    send(db, "next", 1, schema=schema)
    asyncio.run(main())
    (row,) = db.execute("select state, attempt, errors -> 0 ->> 'error' from jobs").fetchall()
    assert row == ("timer", 1, "asyncio.exceptions.CancelledError")
