"""The time in which the database can't be used: one line when it begins, one when it is over; and how long to wait."""

import logging
import random
import threading

import psycopg

from .errors import sqlstate

logger = logging.getLogger("jobwright")


class Backoff:
    """Delays between attempts, in seconds: from `first` to `most`, each double the one before, less up to a fifth."""

    def __init__(self, first: float = 0.1, most: float = 10.0) -> None:
        self._first, self._most = first, most
        self._next = first

    def delay(self) -> float:
        now, self._next = self._next, min(self._next * 2, self._most)
        return now * (1 - 0.2 * random.random())

    def reset(self) -> None:
        self._next = self._first


class Outage:
    """One for all connections of a worker."""

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._lock = threading.Lock()
        self._lasts = False

    def begins(self, error: BaseException) -> None:
        with self._lock:
            if self._lasts:
                return
            self._lasts = True
        logger.warning("worker %s can't use the database, and tries again: %s", self._worker, reason(error))

    def ends(self) -> None:
        with self._lock:
            if not self._lasts:
                return
            self._lasts = False
        logger.warning("worker %s can use the database again", self._worker)


def reason(error: BaseException) -> str:
    """The class of an error, with its first line if it is one of the database, which has no passwords."""
    told = isinstance(error, OSError | psycopg.OperationalError) or sqlstate(error) is not None
    lines = str(error).strip().splitlines() if told else []
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
