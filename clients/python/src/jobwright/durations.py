"""Lengths of time: a `timedelta`, or a number of seconds."""

from datetime import timedelta
from typing import TypeAlias

Duration: TypeAlias = timedelta | float


def seconds(value: Duration, name: str, least: float = 0.0, most: float = 3_162_240_000.0) -> float:
    """Returns it in seconds. Raises ValueError, which calls it `name`, if it is not from `least` to `most` seconds."""
    number = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if not least <= number <= most:
        raise ValueError(f"{name} is {number:g} s; use {least:g} to {most:g} s")
    return number


def interval(value: Duration | None) -> timedelta | None:
    """Returns it as PostgreSQL takes it; the functions there check its range."""
    return value if value is None or isinstance(value, timedelta) else timedelta(seconds=value)
