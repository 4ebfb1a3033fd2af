"""The settings of both kinds of workers, checked once."""

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from . import schema as names
from .durations import Duration, seconds
from .statements import Statements


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All times are in seconds."""

    queues: tuple[str, ...]
    concurrency: int
    lease: float
    poll_interval: float
    cancel_grace: float
    call_timeout: float
    keep: float | None
    content_types: tuple[str, ...] | None
    listen: bool
    name: str
    schema: str

    @property
    def statements(self) -> Statements:
        return Statements(self.schema)

    @property
    def tick(self) -> float:
        """How often deadlines are looked at."""
        return max(0.05, min(1.0, self.lease / 4, self.cancel_grace / 2))

    @property
    def renewal_timeout(self) -> float:
        """The longest time for a renewal: another one is to be tried before the lease ends."""
        return min(self.call_timeout, max(1.0, self.lease / 3))


class Options(TypedDict, total=False):
    """The arguments of a worker; see `Worker`."""

    queue: str | Sequence[str]
    concurrency: int
    lease: Duration
    poll_interval: Duration
    cancel_grace: Duration
    call_timeout: Duration
    keep: Duration | None
    content_types: Sequence[str] | None
    listen: bool
    name: str | None
    schema: str | None


def settings(
    *,
    queue: str | Sequence[str] = "default",
    concurrency: int = 4,
    lease: Duration = 60.0,
    poll_interval: Duration = 5.0,
    cancel_grace: Duration = 5.0,
    call_timeout: Duration = 30.0,
    keep: Duration | None = None,
    content_types: Sequence[str] | None = None,
    listen: bool = True,
    name: str | None = None,
    schema: str | None = None,
) -> Settings:
    """Raises ValueError for a setting that can't be used."""
    queues = (queue,) if isinstance(queue, str) else tuple(queue)
    if not queues:
        raise ValueError("a worker needs a queue")
    if not 1 <= concurrency <= 1000:
        raise ValueError(f"concurrency is {concurrency}; use 1 to 1000")
    return Settings(
        queues=queues,
        concurrency=concurrency,
        lease=seconds(lease, "lease", 1.0, 86_400.0),
        poll_interval=seconds(poll_interval, "poll_interval", 0.01, 3_600.0),
        cancel_grace=seconds(cancel_grace, "cancel_grace", 0.0, 3_600.0),
        call_timeout=seconds(call_timeout, "call_timeout", 0.01, 3_600.0),
        keep=None if keep is None else seconds(keep, "keep", 1.0),
        content_types=None if content_types is None else tuple(content_types),
        listen=listen,
        name=name or f"{socket.gethostname()}:{os.getpid()}",
        schema=names.checked(schema or names.default()),
    )
