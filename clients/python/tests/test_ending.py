"""The call that ends a job, where no database is needed to know."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from jobwright import Fatal, JobCancelled, JobLost, Later
from jobwright.ending import after_error, in_transaction, text, trace
from jobwright.hands import Hand, Hands, State
from jobwright.statements import Statements

STATEMENTS = Statements("jobwright")


@pytest.fixture
def hands() -> Hands:
    return Hands(60.0)


@pytest.fixture
def hand(hands: Hands) -> Hand:
    made = Hand(uuid4(), uuid4(), "mail", 100.0, lambda: None)
    hands.add(made, 0.0)
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


def test_a_job_that_was_taken_again_is_named_once_in_a_call(hands: Hands, hand: Hand) -> None:
    again = Hand(hand.id, uuid4(), "mail", 100.0, lambda: None)
    hands.add(again, 2.0)
    assert (hand.state, hand.told_at) == (State.LOST, 2.0)
    assert hands.held() == [again]
    assert hands.give_back() == [again]
    assert len(hands) == 2


def test_an_answer_is_about_the_jobs_that_the_call_named(hands: Hands, hand: Hand) -> None:
    asked = hands.held()
    again = Hand(hand.id, uuid4(), "mail", 200.0, lambda: None)
    hands.add(again, 2.0)
    assert not hands.renewed(asked, [(hand.id, "lost")], 50.0, 50.1)
    assert again.state is State.HELD


def test_a_lease_is_counted_from_when_its_renewal_was_sent(hands: Hands, hand: Hand) -> None:
    assert not hands.renewed([hand], [(hand.id, "held")], 50.0, 59.0)
    assert hand.ends_at == 110.0
    # An answer that was late takes nothing away.
    assert not hands.renewed([hand], [(hand.id, "held")], 30.0, 59.0)
    assert hand.ends_at == 110.0


@pytest.mark.parametrize("state", ["ending", "a state of a later version"])
def test_a_job_that_another_transaction_is_ending_is_asked_for_again(state: str, hands: Hands, hand: Hand) -> None:
    assert hands.renewed([hand], [(hand.id, state)], 50.0, 50.1)
    assert (hand.state, hand.ends_at, hand.told_at) == (State.HELD, 100.0, None)
    hands.ended(hand, State.CANCELLED, 51.0)
    assert not hands.renewed([hand], [(hand.id, state)], 60.0, 60.1)


def test_a_commit_is_not_cut_off_because_the_lease_ends_meanwhile(hands: Hands, hand: Hand) -> None:
    hand.ending = True
    hands.stop(90.0)
    assert hands.overdue(200.0, 1.0) == []
    assert hand.state is State.HELD
    hand.ending = False
    assert hands.overdue(200.0, 1.0) == [hand]


def test_nothing_begins_that_is_lost_or_given_back(hands: Hands, hand: Hand) -> None:
    assert not hands.begin(hand, 100.0)
    hands.ended(hand, State.CANCELLED, 1.0)
    assert not hands.begin(hand, 2.0)
    assert hands.give_back() == [hand]
    other = Hand(uuid4(), uuid4(), "mail", 100.0, lambda: None)
    hands.add(other, 2.0)
    assert hands.begin(other, 3.0)
    assert hands.give_back() == [hand]


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
