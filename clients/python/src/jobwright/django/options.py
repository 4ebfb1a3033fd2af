"""OPTIONS of a backend in TASKS."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from .. import schema as names
from ..durations import seconds


@dataclass(frozen=True, kw_only=True)
class BackendOptions:
    """By the names that they have in OPTIONS, in capitals there."""

    database: str = "default"
    """The alias of the database with jobwright's schema, in which tasks are sent and run."""
    schema: str = field(default_factory=names.default)
    kind: str = "django-task"
    """The kind of the jobs. Backends whose workers have other code need other kinds or queues."""
    max_attempts: int | None = None
    """How often a task is tried; None is the default of jobwright, 10."""
    retry: str | None = None
    """The delays between attempts: `fixed(30s)`, `exponential(2s, 2, 1h)`."""
    keep_results: float | None = 86_400.0
    """How long results can be read, in seconds (or a timedelta). None keeps none."""
    wake: bool = True
    """Workers are told of a task after the commit, and not only when they poll."""


def read(alias: str, given: Mapping[str, Any]) -> BackendOptions:
    """Raises ImproperlyConfigured for an option that can't be used."""
    fields = {name.upper(): name for name in BackendOptions.__dataclass_fields__}
    unknown = sorted(set(given) - set(fields))
    if unknown:
        raise ImproperlyConfigured(f"TASKS[{alias!r}]: OPTIONS has {unknown[0]!r}; known are {', '.join(fields)}")
    options = {fields[name]: value for name, value in given.items()}
    try:
        names.checked(options.get("schema", names.default()))
        if options.get("keep_results") is not None:
            options["keep_results"] = seconds(options["keep_results"], "KEEP_RESULTS", 1.0)
    except (TypeError, ValueError) as error:
        raise ImproperlyConfigured(f"TASKS[{alias!r}]: {error}") from error
    return BackendOptions(**options)
