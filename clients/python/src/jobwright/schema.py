"""The schema of jobwright in a database, and the names that follow from it."""

import os
import re

VARIABLE = "JOBWRIGHT_DATABASE_SCHEMA"


def default() -> str:
    """Where none is named: that of the variable, which the program `jobwright` reads too, or else `jobwright`."""
    return os.environ.get(VARIABLE) or "jobwright"


def checked(schema: str) -> str:
    """Returns the name if a schema of jobwright can have it. Raises ValueError otherwise."""
    if not re.fullmatch(r"[A-Za-z0-9_]{1,40}", schema) or schema.startswith("pg_"):
        raise ValueError(f"the schema {schema!r} can't be used: letters, digits and _, at most 40, and not pg_…")
    return schema


def quoted(schema: str) -> str:
    """The name as an identifier of SQL."""
    return f'"{checked(schema)}"'


def channel(schema: str) -> str:
    """The channel of its hints, as an identifier of SQL."""
    return f'"{checked(schema)}_wake"'


def hints(queue: str) -> tuple[str, str]:
    """The payloads of hints that a queue has work: it was sent or became due; it was admitted or released."""
    return f"q{queue}", f"r{queue}"
