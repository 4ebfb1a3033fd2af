"""A thread that takes jobs for the free slots, and waits for more."""

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from random import random
from typing import Any

from psycopg import Connection, Notify

from .. import ending
from .. import schema as names
from ..connecting import hints
from ..leases import Lease, Leases
from ..outage import Backoff, Outage
from ..pace import Cause, Pace
from ..settings import Settings
from ..statements import Call
from .line import Line

Dispatch = Callable[[str, Sequence[Any], float], None]


class Taker:
    """`dispatch` gets the queue, a row of a job, and when its lease ends; it must not wait.

    It raises ValueError or RecursionError if the content of the job can't be read.
    """

    def __init__(
        self, settings: Settings, kinds: list[str], leases: Leases, dispatch: Dispatch, outage: Outage
    ) -> None:
        self._settings, self._kinds, self._leases, self._dispatch = settings, kinds, leases, dispatch
        self._outage = outage
        self._backoff = Backoff()
        self._pace = Pace(settings.poll_interval)
        self._stopping = threading.Event()
        self._hinted = False
        self._awake, self._waker = socket.socketpair()
        self._awake.setblocking(False)
        self._waker.setblocking(False)
        self._hints = {hint for queue in settings.queues for hint in names.hints(queue)}

    def opened(self, connection: Connection[Any]) -> None:
        """Listens on a new connection."""
        if self._settings.listen:
            connection.add_notify_handler(self._notified)
            connection.execute(*self._settings.statements.listen)

    def run(self, line: Line) -> None:
        cause = Cause.POLL
        while not self._stopping.is_set():
            try:
                if self._free() > 0:
                    self._pace.looked(cause, self._look(line))
                    self._outage.ends()
                    self._backoff.reset()
                cause = self._wait(line)
            except Exception as error:
                # Any: this thread must go on, or the worker does nothing more.
                cause = Cause.POLL
                line.close()
                self._outage.begins(error)
                self._stopping.wait(self._backoff.delay())
        self.give_back(line)
        if line.connection is not None and self._settings.listen:
            line.connection.remove_notify_handler(self._notified)  # It may be of a pool.
        line.close(before=self._settings.statements.unlisten if self._settings.listen else None)

    def _free(self) -> int:
        return self._settings.concurrency - len(self._leases)

    def _look(self, line: Line) -> bool:
        """Takes no more jobs than the free slots can begin at once. Returns whether there were any."""
        settings = self._settings
        has_found = False
        for queue in settings.queues:
            free = self._free()
            if free <= 0 or self._stopping.is_set():
                break
            call = settings.statements.take(
                queue, settings.name, free, settings.lease, self._kinds, settings.content_types
            )
            unreadable: list[Call] = []
            for row in line.call(call):
                has_found = True
                try:
                    self._dispatch(queue, row, line.sent_at + settings.lease)
                except (ValueError, RecursionError) as error:
                    unreadable.append(ending.of_unreadable(settings.statements, row, error))
            for fail in unreadable:
                line.call(fail)
        return has_found

    def _wait(self, line: Line) -> Cause:
        """Until a job has ended, a hint has come, or it is time to look. Returns the cause of the look."""
        poll_in = self._settings.poll_interval * (1 + 0.4 * random())
        left, cause = self._pace.next(poll_in, self._free() <= 0)
        ends = time.monotonic() + left
        with selectors.DefaultSelector() as selector:
            selector.register(self._awake, selectors.EVENT_READ)
            connection = line.connection if self._settings.listen else None
            if connection is not None:
                selector.register(connection.fileno(), selectors.EVENT_READ)
            while not self._hinted and (left := ends - time.monotonic()) > 0:
                ready = [key.fileobj for key, _ in selector.select(left)]
                if self._awake in ready:
                    self._drain()
                    cause = Cause.END
                    break
                if ready and connection is not None:
                    self._hinted = any(hint in self._hints for hint in hints(connection))
        if self._hinted:
            cause = Cause.HINT
        self._hinted = False
        return cause

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
        idle: list[Lease] = self._leases.give_back()
        try:
            if idle:
                line.call(self._settings.statements.release_many([h.id for h in idle], [h.token for h in idle]))
        except Exception as error:
            self._outage.begins(error)
        for lease in idle:
            self._leases.remove(lease)

    def close(self) -> None:
        self._awake.close()
        self._waker.close()
