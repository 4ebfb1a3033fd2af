"""How a handler ends, other than by returning a result or raising an error.

`Later` and `Fatal` can be returned or raised. Returned, they commit the handler's writes; raised, they roll them back.
"""

from dataclasses import dataclass
from typing import Any

from .durations import Duration, seconds


@dataclass(frozen=True)
class Done:
    """Returned: the job is done, with a result (JSON) that can be read by the job's id for as long as `keep`."""

    result: Any = None
    keep: Duration | None = None


class Later(Exception):
    """The job runs again after `delay` (seconds, or a timedelta), at no attempt."""

    def __init__(self, delay: Duration) -> None:
        super().__init__(f"again in {seconds(delay, 'delay'):g} s")
        self.delay = delay


class Fatal(Exception):
    """No attempt can succeed: the job becomes a dead letter at once. `error` says why, for people."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = str(error)
