"""The call that ends a job, where no database is needed to know."""

from typing import Any
from uuid import uuid4

import pytest

from jobwright import Fatal, JobCancelled, JobLost, Later
from jobwright.ending import after_error, in_transaction
from jobwright.hands import Hand, Hands, State
from jobwright.statements import Statements

STATEMENTS = Statements("jobwright")


@pytest.fixture
def hands() -> Hands:
    return Hands(60.0)


@pytest.fixture
def hand(hands: Hands) -> Hand:
    made = Hand(uuid4(), uuid4(), "mail", 100.0, lambda: None)
    hands.add(made)
    return made


def test_a_lease_that_has_ended_by_the_own_clock_is_not_committed(hands: Hands, hand: Hand) -> None:
    assert in_transaction(STATEMENTS, hands, hand, None, None, 99.9).query.startswith(b'select "jobwright".done(')
    with pytest.raises(JobLost):
        in_transaction(STATEMENTS, hands, hand, None, None, 100.0)
    assert hand.told_at == 100.0


@pytest.mark.parametrize(("state", "error"), [(State.LOST, JobLost), (State.CANCELLED, JobCancelled)])
def test_a_job_that_is_gone_is_not_ended(state: State, error: type[Exception], hands: Hands, hand: Hand) -> None:
    hands.ended(hand, state, 1.0)
    for value in (None, 1, Later(1), Fatal("no")):
        with pytest.raises(error):
            in_transaction(STATEMENTS, hands, hand, value, None, 2.0)


@pytest.mark.parametrize(
    ("error", "function"),
    [(ValueError(), b"fail"), (Later(1), b"later"), (Fatal("no"), b"fail"), (SystemExit(), b"fail")],
)
def test_after_an_error_nothing_is_strict(error: BaseException, function: bytes, hand: Hand) -> None:
    call: Any = after_error(STATEMENTS, hand, error, broken=False)
    assert b"." + function + b"(" in call.query
    assert call.parameters[-1] is False
    assert after_error(STATEMENTS, hand, error, broken=True) is None


def test_renewals_of_a_job_that_was_taken_again_are_its_own(hands: Hands, hand: Hand) -> None:
    hands.ended(hand, State.LOST, 1.0)
    again = Hand(hand.id, uuid4(), "mail", 100.0, lambda: None)
    hands.add(again)
    hands.renewed([(hand.id, "held")], 50.0)
    assert (hand.ends_at, again.ends_at, len(hands)) == (100.0, 110.0, 2)
