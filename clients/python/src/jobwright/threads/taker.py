"""A thread that takes jobs for the free slots, and waits for more."""

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from random import random
from typing import Any

import psycopg
from psycopg import Connection, Notify

from .. import schema as names
from ..connecting import hints
from ..hands import Hand, Hands
from ..outage import Backoff, Outage
from ..settings import Settings
from .line import Line

Dispatch = Callable[[str, Sequence[Any], float], None]


class Taker:
    """`dispatch` gets the queue, a row of a job, and when its lease ends; it must not wait."""

    def __init__(self, settings: Settings, kinds: list[str], hands: Hands, dispatch: Dispatch, outage: Outage) -> None:
        self._settings, self._kinds, self._hands, self._dispatch = settings, kinds, hands, dispatch
        self._outage = outage
        self._backoff = Backoff()
        self._stopping = threading.Event()
        self._hinted = False
        self._awake, self._waker = socket.socketpair()
        self._awake.setblocking(False)
        self._waker.setblocking(False)
        self._hints = {names.hint(queue) for queue in settings.queues}

    def opened(self, connection: Connection[Any]) -> None:
        """Listens on a new connection."""
        if self._settings.listen:
            connection.add_notify_handler(self._notified)
            connection.execute(*self._settings.statements.listen)

    def run(self, line: Line) -> None:
        while not self._stopping.is_set():
            try:
                self._look(line)
                self._outage.ends()
                self._backoff.reset()
                self._wait(line)
            except (psycopg.Error, OSError) as error:
                line.close()
                self._outage.begins(error)
                self._stopping.wait(self._backoff.delay())
        self.give_back(line)
        line.close(before=self._settings.statements.unlisten if self._settings.listen else None)

    def _look(self, line: Line) -> None:
        """Takes no more jobs than the free slots can begin at once."""
        for queue in self._settings.queues:
            free = self._settings.concurrency - len(self._hands)
            if free <= 0 or self._stopping.is_set():
                return
            settings = self._settings
            call = settings.statements.take(
                queue, settings.name, free, settings.lease, self._kinds, settings.content_types
            )
            sent_at = time.monotonic()
            for row in line.call(call):
                self._dispatch(queue, row, sent_at + settings.lease)

    def _wait(self, line: Line) -> None:
        """Until a job has ended, a hint has come, or it is time to poll."""
        ends = time.monotonic() + self._settings.poll_interval * (1 + 0.4 * random())
        with selectors.DefaultSelector() as selector:
            selector.register(self._awake, selectors.EVENT_READ)
            connection = line.connection if self._settings.listen else None
            if connection is not None:
                selector.register(connection.fileno(), selectors.EVENT_READ)
            while not self._hinted and (left := ends - time.monotonic()) > 0:
                ready = [key.fileobj for key, _ in selector.select(left)]
                if self._awake in ready:
                    self._drain()
                    break
                if ready and connection is not None:
                    self._hinted = any(hint in self._hints for hint in hints(connection))
        self._hinted = False

    def _notified(self, notification: Notify) -> None:
        # One that came with the answer to another statement.
        self._hinted = self._hinted or notification.payload in self._hints

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._awake.recv(4096):
                pass

    def wake(self) -> None:
        """Lets it look again. When so many calls are under way that the socket is full, it is awake anyway."""
        with contextlib.suppress(OSError):
            self._waker.send(b"\0")

    def stop(self) -> None:
        """It takes no more, and gives back the jobs that are not begun."""
        self._stopping.set()
        self.wake()

    def give_back(self, line: Line) -> None:
        idle: list[Hand] = self._hands.give_back()
        try:
            if idle:
                line.call(self._settings.statements.release_many([h.id for h in idle], [h.token for h in idle]))
        except (psycopg.Error, OSError) as error:
            self._outage.begins(error)
        for hand in idle:
            self._hands.remove(hand)

    def close(self) -> None:
        self._awake.close()
        self._waker.close()
