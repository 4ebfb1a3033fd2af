"""The call that ends a job, where no database is needed to know."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from jobwright import Fatal, JobCancelled, JobLost, Later
from jobwright.ending import after_error, in_transaction, text, trace
from jobwright.leases import Lease, Leases, State
from jobwright.statements import Statements

STATEMENTS = Statements("jobwright")


@pytest.fixture
def leases() -> Leases:
    return Leases(60.0)


@pytest.fixture
def lease(leases: Leases) -> Lease:
    made = Lease(uuid4(), uuid4(), "mail", 100.0, lambda: None)
    leases.add(made, 0.0)
    return made


def test_a_lease_that_has_ended_by_the_own_clock_is_not_committed(leases: Leases, lease: Lease) -> None:
    assert in_transaction(STATEMENTS, leases, lease, None, None, 99.9).query.startswith(b'select "jobwright".done(')
    with pytest.raises(JobLost):
        in_transaction(STATEMENTS, leases, lease, None, None, 100.0)
    assert lease.told_at == 100.0


@pytest.mark.parametrize(("state", "error"), [(State.LOST, JobLost), (State.CANCELLED, JobCancelled)])
def test_a_job_that_is_gone_is_not_ended(state: State, error: type[Exception], leases: Leases, lease: Lease) -> None:
    leases.ended(lease, state, 1.0)
    for value in (None, 1, Later(1), Fatal("no")):
        with pytest.raises(error):
            in_transaction(STATEMENTS, leases, lease, value, None, 2.0)


@pytest.mark.parametrize(
    ("error", "function"),
    [(ValueError(), b"fail"), (Later(1), b"later"), (Fatal("no"), b"fail"), (SystemExit(), b"fail")],
)
def test_after_an_error_nothing_is_strict(error: BaseException, function: bytes, lease: Lease) -> None:
    call: Any = after_error(STATEMENTS, lease, error, broken=False)
    assert b"." + function + b"(" in call.query
    assert call.parameters[-1] is False
    assert after_error(STATEMENTS, lease, error, broken=True) is None


def test_a_job_that_was_taken_again_is_named_once_in_a_call(leases: Leases, lease: Lease) -> None:
    again = Lease(lease.id, uuid4(), "mail", 100.0, lambda: None)
    leases.add(again, 2.0)
    assert (lease.state, lease.told_at) == (State.LOST, 2.0)
    assert leases.held() == [again]
    assert leases.give_back() == [again]
    assert len(leases) == 2


def test_an_answer_is_about_the_jobs_that_the_call_named(leases: Leases, lease: Lease) -> None:
    asked = leases.held()
    again = Lease(lease.id, uuid4(), "mail", 200.0, lambda: None)
    leases.add(again, 2.0)
    assert not leases.renewed(asked, [(lease.id, "lost")], 50.0, 50.1)
    assert again.state is State.HELD


def test_a_lease_is_counted_from_when_its_renewal_was_sent(leases: Leases, lease: Lease) -> None:
    assert not leases.renewed([lease], [(lease.id, "held")], 50.0, 59.0)
    assert lease.ends_at == 110.0
    # An answer that was late takes nothing away.
    assert not leases.renewed([lease], [(lease.id, "held")], 30.0, 59.0)
    assert lease.ends_at == 110.0


@pytest.mark.parametrize("state", ["ending", "a state of a later version"])
def test_a_job_that_another_transaction_is_ending_is_asked_for_again(state: str, leases: Leases, lease: Lease) -> None:
    assert leases.renewed([lease], [(lease.id, state)], 50.0, 50.1)
    assert (lease.state, lease.ends_at, lease.told_at) == (State.HELD, 100.0, None)
    leases.ended(lease, State.CANCELLED, 51.0)
    assert not leases.renewed([lease], [(lease.id, state)], 60.0, 60.1)


def test_a_commit_is_not_cut_off_because_the_lease_ends_meanwhile(leases: Leases, lease: Lease) -> None:
    lease.ending = True
    leases.stop(90.0)
    assert leases.overdue(200.0, 1.0) == []
    assert lease.state is State.HELD
    lease.ending = False
    assert leases.overdue(200.0, 1.0) == [lease]


def test_nothing_begins_that_is_lost_or_given_back(leases: Leases, lease: Lease) -> None:
    assert not leases.begin(lease, 100.0)
    leases.ended(lease, State.CANCELLED, 1.0)
    assert not leases.begin(lease, 2.0)
    assert leases.give_back() == [lease]
    other = Lease(uuid4(), uuid4(), "mail", 100.0, lambda: None)
    leases.add(other, 2.0)
    assert leases.begin(other, 3.0)
    assert leases.give_back() == [lease]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError


def test_texts_can_be_stored_and_are_no_longer_than_what_is_kept() -> None:
    assert text(ValueError("a\0b")) == "ValueError: a\\0b"
    assert text(ValueError("\ud800")) == "ValueError: \\ud800"
    assert text(Unspeakable()).endswith("Unspeakable")
    assert len(text(ValueError("€" * 10_000_000)).encode()) <= 1024
    try:
        raise ValueError("€" * 10_000 + "the end")
    except ValueError as error:
        end = trace(error)
    assert end.endswith("the end\n")
    assert 4090 <= len(end.encode()) <= 4096


def test_a_call_shows_no_parameters() -> None:
    call = STATEMENTS.done(uuid4(), UUID(int=7), {"password": "secret"}, None)
    assert repr(call) == f"Call({call.query!r})"
