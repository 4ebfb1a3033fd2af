"""Routes everything to the database with the jobs."""

from typing import Any


class Router:
    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "jobs"

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "jobs"
