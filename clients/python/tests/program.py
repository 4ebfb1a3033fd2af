"""A worker in a process of its own: `python program.py threads|asyncio SCHEMA NAME LEASE [CONCURRENCY]`.

Each start is a row that is committed at once; the table refuses a second one of the same attempt. The payload of a job
says how many seconds it takes.
"""

import asyncio
import os
import sys
import time
from typing import Any

import psycopg

from jobwright import AsyncJob, AsyncWorker, Job, Worker

kind, schema, name, lease = sys.argv[1:5]
concurrency = int(sys.argv[5]) if len(sys.argv) > 5 else 2
url = os.environ["DATABASE_URL"]
START = f"insert into {schema}.start (job, attempt, worker) values (%s, %s, %s)"
EFFECT = f"insert into {schema}.effect values (%s, %s)"
options: dict[str, Any] = {
    "schema": schema,
    "name": name,
    "lease": float(lease),
    "concurrency": concurrency,
    "poll_interval": 0.2,
}


def log_start(job: Job | AsyncJob) -> None:
    with psycopg.connect(url, autocommit=True) as own:
        own.execute(START, [job.id, job.attempt, name])


def sync_main() -> bool:
    worker = Worker(url, **options)

    @worker.handler("work")
    def work(job: Job, connection: psycopg.Connection[Any]) -> None:
        log_start(job)
        connection.execute(EFFECT, [job.id, name])
        time.sleep(job.payload)

    return worker.run(grace=10)


async def async_main() -> bool:
    worker = AsyncWorker(url, **options)

    @worker.handler("work")
    async def work(job: AsyncJob, connection: psycopg.AsyncConnection[Any]) -> None:
        await asyncio.to_thread(log_start, job)
        await connection.execute(EFFECT, [job.id, name])
        await asyncio.sleep(job.payload)

    return await worker.run(grace=10)


if __name__ == "__main__":
    sys.exit(0 if (sync_main() if kind == "threads" else asyncio.run(async_main())) else 1)
