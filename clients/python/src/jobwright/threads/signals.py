"""SIGTERM and SIGINT, for the main thread of a program."""

import contextlib
import selectors
import signal
import socket
from types import FrameType, TracebackType
from typing import Any

NUMBERS = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Counts them, while it is entered.

    The handler runs between any two steps of the main thread, also while that holds a lock. So it takes none: setting a
    `threading.Event` for which this thread waits would sometimes block for ever.
    """

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Signals":
        self._told, self._teller = socket.socketpair()
        self._teller.setblocking(False)
        self._before = {number: signal.signal(number, self._on_signal) for number in NUMBERS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._told.close()
        self._teller.close()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        with contextlib.suppress(OSError):
            self._teller.send(b"\0")

    def wait(self, seconds: float) -> bool:
        """Waits for a signal, at most so long. Returns whether there was one."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._told, selectors.EVENT_READ)
            if not self.count:
                selector.select(seconds)
        return self.count > 0
