"""Errors of this package. Those of the database stay psycopg's."""

from uuid import UUID

LOST = "JW002"
CANCELLED = "JW003"


class JobwrightError(Exception):
    """Base of the errors of this package."""


class JobEnded(JobwrightError):
    """The job is no longer this worker's: the handler's writes can't be committed. Let it pass."""

    def __init__(self, job: UUID, why: str) -> None:
        super().__init__(f"the job {job} {why}")
        self.job = job


class JobLost(JobEnded):
    """The lease ended (JW002): the job may run elsewhere."""

    def __init__(self, job: UUID) -> None:
        super().__init__(job, "is no longer this worker's: its lease ended, and it may run elsewhere")


class JobCancelled(JobEnded):
    """The job was cancelled (JW003)."""

    def __init__(self, job: UUID) -> None:
        super().__init__(job, "was cancelled")


def sqlstate(error: BaseException) -> str | None:
    """The SQLSTATE of an error of the database; None for others."""
    return getattr(error, "sqlstate", None)
