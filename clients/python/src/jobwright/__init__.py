"""Jobs in PostgreSQL: sent in your transaction, and ended in the transaction of their work.

The SQL functions of jobwright are the interface (docs/sql.md); this package wraps them.
"""

from .aio.worker import AsyncWorker
from .errors import JobCancelled, JobEnded, JobLost, JobwrightError
from .job import AsyncJob, Job
from .outcome import Done, Fatal, Later
from .sending import SendOptions, cancel, cancel_async, send, send_async, wake, wake_async
from .threads.worker import Worker

__all__ = [
    "AsyncJob",
    "AsyncWorker",
    "Done",
    "Fatal",
    "Job",
    "JobCancelled",
    "JobEnded",
    "JobLost",
    "JobwrightError",
    "Later",
    "SendOptions",
    "Worker",
    "cancel",
    "cancel_async",
    "send",
    "send_async",
    "wake",
    "wake_async",
]
