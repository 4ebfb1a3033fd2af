"""How soon a worker looks again after it found jobs that no hint announced. It does no I/O.

Plain SQL, triggers and programs in other languages send jobs without a hint, because a notification in their
transactions would serialise the commits of the whole database. A poll finds the first of their jobs. Where there was
one, more are likely to come: the worker looks again soon, and then less and less often. So the pauses follow the gaps
between such jobs, and jobs that hints announce cost no looks.
"""

import enum

#: The pause after such a job was found, in seconds.
FIRST = 0.02
GROWTH = 1.5


class Cause(enum.Enum):
    """The cause of a look."""

    HINT = "hint"
    END = "end"
    """A job has ended, so a slot is free."""
    POLL = "poll"
    PAUSE = "pause"


class Pace:
    def __init__(self, poll_interval: float) -> None:
        self._longest = poll_interval
        self._pause: float | None = None

    def next(self, poll_in: float, is_full: bool) -> tuple[float, Cause]:
        """How long to wait for a sign before the next look, and its cause then.

        `poll_in`: when it is time to poll. `is_full`: no slot is free, so nothing can be taken.
        """
        if self._pause is None or is_full:
            return poll_in, Cause.POLL
        return self._pause, Cause.PAUSE

    def looked(self, cause: Cause, has_found: bool) -> None:
        """Notes how a look ended."""
        pause = self._pause
        if has_found and (cause in (Cause.POLL, Cause.PAUSE) or (cause is Cause.END and pause is not None)):
            pause = FIRST
        elif cause is Cause.PAUSE and pause is not None:
            pause *= GROWTH
        self._pause = None if pause is None or pause >= self._longest else pause
