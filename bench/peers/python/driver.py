"""procrastinate, driven by the words of bench/src/peers/driver.rs (they are listed in bench/peers/npm/driver.mjs).

Settings: psycopg in its compiled form, `delete_jobs=always` (a finished job leaves the table, as ours does), and 10 jobs at a time in
each of the two processes the harness starts. LISTEN/NOTIFY is on, which is its default.
"""

import asyncio
import json
import logging
import os
import sys
import time

from procrastinate import App, PsycopgConnector

MODE, COUNT = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
TEXT = json.loads(os.environ["BENCH_PAYLOAD"])["text"]
WARM_UP = 20
logging.disable(logging.WARNING)

app = App(connector=PsycopgConnector(conninfo=os.environ["DATABASE_URL"], min_size=4, max_size=12))
ran, starts = 0, {}


def say(line):
    print(line, flush=True)


async def line():
    """The next word of the harness, or nothing when it is through with us."""
    return await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


@app.task(name="bench")
async def bench(text, n=None):
    global ran
    if MODE == "latency":
        starts[n] = time.perf_counter()
    else:
        ran += 1
        if ran % COUNT == 0:
            say("RAN")


def work(concurrency):
    return asyncio.create_task(
        app.run_worker_async(concurrency=concurrency, delete_jobs="always", install_signal_handlers=False)
    )


async def paced():
    sent, due = [], time.perf_counter() + 0.5
    for n in range(WARM_UP + COUNT):
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        due = max(due, time.perf_counter() - 0.02) + 0.02
        before = time.perf_counter()
        await bench.defer_async(text=TEXT, n=n)
        sent.append((before, time.perf_counter()))
        # The worker has to be awake before it counts, and to be through before the end.
        while len(sent) in (WARM_UP, WARM_UP + COUNT) and len(starts) < len(sent):
            await asyncio.sleep(0.01)
    for n, (before, after) in list(enumerate(sent))[WARM_UP:]:
        say(f"LATENCY {max(0.0, starts[n] - after) * 1000} {(starts[n] - before) * 1000}")


async def main():
    async with app.open_async():
        if MODE == "setup":
            await app.schema_manager.apply_schema_async()
            return
        say("READY")
        await line()
        if MODE == "work":
            worker = work(10)
        elif MODE == "latency":
            worker = work(2)
            await paced()
        elif MODE == "bulk":
            for done in range(0, COUNT, 1000):
                await bench.batch_defer_async(*[{"text": TEXT}] * min(1000, COUNT - done))
        elif MODE == "one":
            for _ in range(COUNT):
                await bench.defer_async(text=TEXT)
        if MODE != "work":
            say("DONE")
        # The harness reads the processor time before it ends this program.
        await line()
        os._exit(0)


asyncio.run(main())
