"""Which call ends a job, after its handler has returned or raised. It does no I/O."""

import traceback
from collections.abc import Sequence
from typing import Any

from .durations import Duration
from .errors import CANCELLED, LOST, JobCancelled, JobLost, sqlstate
from .leases import Lease, Leases, State
from .outcome import Done, Fatal, Later
from .statements import Call, Statements

#: The database keeps so many bytes, from the beginning. Of a trace the end says most.
ERROR, DETAIL = 1024, 4096


def name(error: BaseException) -> str:
    """The class of an error, as in its trace."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def text(error: BaseException) -> str:
    """An error for people."""
    try:
        said = str(error)
    except Exception:
        said = ""
    return storable(f"{name(error)}: {said}" if said else name(error))


def trace(error: BaseException) -> str:
    """Where it came from."""
    return _encoded("".join(traceback.format_exception(error))[-DETAIL:])[-DETAIL:].decode("utf-8", "ignore")


def storable(said: str) -> str:
    """The text as PostgreSQL can store it: no NUL, no halves of characters, and no more than is kept."""
    return _encoded(said[:ERROR])[:ERROR].decode("utf-8", "ignore")


def _encoded(said: str) -> bytes:
    return said.replace("\0", "\\0").encode("utf-8", "backslashreplace")


def in_transaction(
    statements: Statements, leases: Leases, lease: Lease, value: Any, keep: Duration | None, now: float
) -> Call:
    """The call that ends the job in the transaction of its handler, which has returned `value`.

    It is an error in the database if the job is no longer this worker's, so that the transaction can't commit.
    Raises JobLost or JobCancelled if that is known already, and if the lease has ended here.
    """
    if lease.state is State.HELD and lease.is_over(now):
        leases.ended(lease, State.LOST, now)
    if lease.state is State.LOST:
        raise JobLost(lease.id)
    if lease.state is State.CANCELLED:
        raise JobCancelled(lease.id)
    if isinstance(value, Later):
        return statements.later(lease.id, lease.token, value.delay, strict=True)
    if isinstance(value, Fatal):
        return statements.fail(lease.id, lease.token, storable(value.error), None, dead=True, strict=True)
    done = value if isinstance(value, Done) else Done(value, keep)
    return statements.done(lease.id, lease.token, done.result, done.keep if done.keep is not None else keep)


def note(leases: Leases, lease: Lease, error: BaseException, now: float) -> None:
    """Notes that a call about this job was refused, and why."""
    if sqlstate(error) == CANCELLED:
        leases.ended(lease, State.CANCELLED, now)
    elif sqlstate(error) == LOST:
        leases.ended(lease, State.LOST, now)


def after_error(statements: Statements, lease: Lease, error: BaseException, broken: bool) -> Call | None:
    """The call that ends the job after its transaction was rolled back, None if there is none.

    None of them is an error in the database if the job is no longer this worker's. `broken`: the connection was lost,
    so it is not known whether the transaction has committed. The lease ends, and the job runs again if it has not.
    """
    if lease.state is State.CANCELLED:
        return statements.release_many([lease.id], [lease.token])
    if lease.state is State.LOST:
        return None
    if isinstance(error, Later) and not broken:
        return statements.later(lease.id, lease.token, error.delay, strict=False)
    if isinstance(error, Fatal) and not broken:
        return statements.fail(lease.id, lease.token, storable(error.error), None, dead=True, strict=False)
    if lease.stopped:
        return statements.release_many([lease.id], [lease.token])
    if broken:
        return None
    return statements.fail(lease.id, lease.token, text(error), trace(error), dead=False, strict=False)


def of_unreadable(statements: Statements, row: Sequence[Any], error: Exception) -> Call:
    """The call that ends a job that was taken and can't be given to a handler. `row`: that of `take`."""
    return statements.fail(row[0], row[1], f"its JSON can't be read: {text(error)}", None, dead=True, strict=False)


def line(lease: Lease, error: BaseException, attempt: int, max_attempts: int, broken: bool) -> str | None:
    """A line for the log: the kind of error and the job, but no texts, which may hold secrets."""
    if lease.state is State.CANCELLED:
        return f"job {lease.id} ({lease.kind}) was cancelled"
    if lease.state is State.LOST:
        return f"job {lease.id} ({lease.kind}) was lost: its lease ended before its handler did"
    if isinstance(error, Later) and not broken:
        return None
    if lease.stopped and not isinstance(error, Fatal):
        return f"job {lease.id} ({lease.kind}) was given back: its handler did not end before the worker had to"
    if broken:
        return (
            f"job {lease.id} ({lease.kind}): its connection was lost, so it is not known whether it is done;"
            f" if it is not, it runs again when its lease has ended: {name(error)}"
        )
    return f"job {lease.id} ({lease.kind}) failed at attempt {attempt} of {max_attempts}: {name(error)}"


def late(lease: Lease, error: BaseException) -> str:
    """A line for the log, if the job was already ended when its end was to be recorded after an error."""
    return f"job {lease.id} ({lease.kind}) had ended when an error followed, which is not recorded: {name(error)}"
