"""Runs a `Worker` or an `AsyncWorker` with the same handlers: plain functions of a `Context`."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol

from jobwright import AsyncJob, AsyncWorker, Job, Worker, send, send_async

DEADLINE = 30.0


class Context(Protocol):
    """The part of both workers that the handlers of tests use."""

    job: Any

    def execute(self, query: str, parameters: Any = ()) -> None: ...

    def nested(self, query: str) -> None: ...

    def send(self, kind: str, payload: Any, **options: Any) -> None: ...

    def progress(self, percent: int | None = None, checkpoint: Any = None) -> None: ...


class Threads:
    def __init__(self, job: Job, connection: Any) -> None:
        self.job, self.connection = job, connection

    def execute(self, query: str, parameters: Any = ()) -> None:
        self.connection.execute(query, parameters)

    def nested(self, query: str) -> None:
        with self.connection.transaction():
            self.connection.execute(query)

    def send(self, kind: str, payload: Any, **options: Any) -> None:
        send(self.connection, kind, payload, **options)

    def progress(self, percent: int | None = None, checkpoint: Any = None) -> None:
        self.job.progress(percent, checkpoint=checkpoint)


class Tasks:
    """The handler is in a thread, and its calls are in the loop of the worker."""

    def __init__(self, job: AsyncJob, connection: Any) -> None:
        self.job, self.connection = job, connection
        self.loop = asyncio.get_running_loop()

    def wait(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(DEADLINE)

    def execute(self, query: str, parameters: Any = ()) -> None:
        self.wait(self.connection.execute(query, parameters))

    def nested(self, query: str) -> None:
        async def nested() -> None:
            async with self.connection.transaction():
                await self.connection.execute(query)

        self.wait(nested())

    def send(self, kind: str, payload: Any, **options: Any) -> None:
        self.wait(send_async(self.connection, kind, payload, **options))

    def progress(self, percent: int | None = None, checkpoint: Any = None) -> None:
        self.wait(self.job.progress(percent, checkpoint=checkpoint))


class Running(Protocol):
    def stop(self, grace: float = DEADLINE) -> bool: ...


class Loop:
    """An AsyncWorker in a thread of its own."""

    def __init__(self, make: Callable[[], AsyncWorker]) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.worker = make()
        self.wait(self.worker.start())

    def wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        future: Future[Any] = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        return future.result(DEADLINE * 2)

    def stop(self, grace: float = DEADLINE) -> bool:
        if self.loop.is_closed():
            return True
        ended: bool = self.wait(self.worker.stop(grace))
        self.wait(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(DEADLINE)
        self.loop.close()
        return ended


def call(function: Callable[..., Any], job: Job, connection: Any) -> Any:
    return function(Threads(job, connection))


def start_worker(kind: str, database: Any, handlers: dict[str, Callable[..., Any]], options: dict[str, Any]) -> Running:
    if kind == "threads":
        worker = Worker(database, **options)
        for name, function in handlers.items():
            worker.handle(name, partial(call, function))
        worker.start()
        return worker

    def make() -> AsyncWorker:
        made = AsyncWorker(database, **options)
        for name, function in handlers.items():

            async def handle(job: AsyncJob, connection: Any, f: Callable[..., Any] = function) -> Any:
                return await asyncio.to_thread(f, Tasks(job, connection))

            made.handle(name, handle)
        return made

    return Loop(make)
