"""Jobs that no hint announces are looked for as often as they come."""

import statistics
import time
from typing import Any

import pytest
from harness import Context
from psycopg import Connection

from jobwright import send, wake
from jobwright.pace import FIRST, Cause, Pace


def pause(pace: Pace) -> float | None:
    seconds, cause = pace.next(7.0, is_full=False)
    return seconds if cause is Cause.PAUSE else None


def test_pauses_grow_up_to_the_poll_interval() -> None:
    pace = Pace(5.0)
    pace.looked(Cause.POLL, False)
    assert pause(pace) is None
    pace.looked(Cause.POLL, True)
    assert pause(pace) == FIRST
    looks = 0
    while pause(pace) is not None:
        assert pace.next(7.0, is_full=True) == (7.0, Cause.POLL)
        pace.looked(Cause.PAUSE, False)
        pace.looked(Cause.HINT, True)
        pace.looked(Cause.END, False)
        looks += 1
    assert looks == 14


def test_what_hints_announce_costs_no_looks() -> None:
    pace = Pace(5.0)
    for cause in (Cause.HINT, Cause.END, Cause.HINT):
        pace.looked(cause, True)
        assert pause(pace) is None


def test_each_find_starts_over() -> None:
    pace = Pace(5.0)
    for cause in (Cause.PAUSE, Cause.END):
        pace.looked(Cause.POLL, True)
        for _ in range(5):
            pace.looked(Cause.PAUSE, False)
        assert (pause(pace) or 0) > FIRST
        # A busy worker finds the jobs of a stream when another one has ended.
        pace.looked(cause, True)
        assert pause(pace) == FIRST
    short = Pace(FIRST)
    short.looked(Cause.POLL, True)
    assert pause(short) is None


def test_a_stream_without_hints_starts_soon(db: Connection[Any], schema: str, worker: Any, eventually: Any) -> None:
    """Twenty jobs a second by plain SQL: the first look finds the first one, and no poll follows in this test."""
    started: dict[int, float] = {}

    def handle(context: Context) -> None:
        started[context.job.payload] = time.monotonic()

    send(db, "work", -1, schema=schema)
    worker({"work": handle}, poll_interval=5)
    eventually(lambda: started, "the first look finds the first one")
    seen = []
    for _ in range(4):
        plain = median_delay(db, schema, started, eventually, wakes=False)
        if plain < 0.05:
            return
        # Other programs hold the machine up: then jobs that are announced start late, too. Polls would take seconds.
        announced = median_delay(db, schema, started, eventually, wakes=True)
        if plain < 0.05 + 2 * announced:
            return
        seen.append((plain, announced))
    pytest.fail(f"medians without and with hints: {seen}")


def median_delay(db: Connection[Any], schema: str, started: dict[int, float], eventually: Any, *, wakes: bool) -> float:
    sent: dict[int, float] = {}
    started.clear()
    began = time.monotonic()
    for number in range(30):
        time.sleep(max(0.0, began + number * 0.05 - time.monotonic()))
        send(db, "work", number, schema=schema)
        sent[number] = time.monotonic()
        if wakes:
            wake(db, schema=schema)
    eventually(lambda: len(started) == len(sent), "all have started", 4)
    return statistics.median(started[number] - sent[number] for number in sent)
