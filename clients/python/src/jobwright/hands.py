"""The jobs that a worker has in hand, and until when. It does no I/O and may be used from several threads."""

import enum
import threading
from collections.abc import Callable, Iterable
from uuid import UUID


class State(enum.Enum):
    HELD = "held"
    LOST = "lost"
    CANCELLED = "cancelled"


class Hand:
    """A job that was handed to this worker. `ends_at` and `now` are of a monotonic clock, in seconds."""

    def __init__(self, id: UUID, token: UUID, kind: str, ends_at: float, tell: Callable[[], None]) -> None:
        self.id, self.token, self.kind = id, token, kind
        self.ends_at = ends_at
        self.state = State.HELD
        self.begun = False
        self.ending = False
        """The database has accepted its end, and has locked the job until the commit: no one else can get it."""
        self.given_back = False
        self.stopped = False
        """The worker's time to stop was up before the handler had ended."""
        self.told_at: float | None = None
        self._tell = tell

    def is_over(self, now: float) -> bool:
        """Whether its lease has ended by this clock."""
        return self.ends_at <= now

    def may_begin(self, now: float) -> bool:
        return self.state is State.HELD and not self.given_back and not self.is_over(now)

    def tell(self, now: float) -> None:
        """Tells the handler that it should end."""
        if self.told_at is None:
            self.told_at = now
            self._tell()


class Hands:
    """All of a worker. It never has more than the worker has slots."""

    def __init__(self, lease: float) -> None:
        self._lease = lease
        # By their tokens: a job that was lost may be taken again while its handler still runs.
        self._hands: dict[UUID, Hand] = {}
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    def __len__(self) -> int:
        return len(self._hands)

    def add(self, hand: Hand, now: float) -> None:
        with self._lock:
            for other in self._hands.values():
                # It was lost, and nothing has noticed yet: this clock may have stood still. A call names a job once.
                if other.id == hand.id and other.state is State.HELD:
                    other.state = State.LOST
                    other.tell(now)
            self._hands[hand.token] = hand

    def remove(self, hand: Hand) -> None:
        with self._changed:
            self._hands.pop(hand.token, None)
            self._changed.notify_all()

    def begin(self, hand: Hand, now: float) -> bool:
        """Whether the handler may begin: from then on the job is not given back."""
        with self._lock:
            hand.begun = hand.may_begin(now)
            return hand.begun

    def give_back(self) -> list[Hand]:
        """Takes the jobs that are not begun away from their slots, to be released."""
        with self._lock:
            idle = [hand for hand in self._hands.values() if not hand.begun]
            for hand in idle:
                hand.given_back = True
            return [hand for hand in idle if hand.state is not State.LOST]

    def held(self) -> list[Hand]:
        """Those whose leases are to be renewed."""
        with self._lock:
            return [hand for hand in self._hands.values() if hand.state is State.HELD]

    def renewed(self, asked: Iterable[Hand], rows: Iterable[tuple[UUID, str]], sent_at: float, now: float) -> bool:
        """Notes the answer of `extend_many` to a call that was sent at this time, about these jobs.

        Returns whether to ask again soon: another transaction is just ending a job, so its lease stays as it is.
        """
        undecided = False
        with self._lock:
            by_id = {hand.id: hand for hand in asked if hand.state is State.HELD}
            for id, state in rows:
                hand = by_id.get(id)
                if hand is None:
                    continue
                if state == State.HELD.value:
                    hand.ends_at = max(hand.ends_at, sent_at + self._lease)
                elif state in (State.LOST.value, State.CANCELLED.value):
                    hand.state = State(state)
                    hand.tell(now)
                else:
                    undecided = True
        return undecided

    def ended(self, hand: Hand, state: State, now: float) -> None:
        """Notes that the job is no longer this worker's."""
        with self._lock:
            if hand.state is State.HELD:
                hand.state = state
            hand.tell(now)

    def stop(self, now: float) -> None:
        """The worker can wait no longer: tells all handlers."""
        with self._lock:
            for hand in self._hands.values():
                hand.stopped = True
                hand.tell(now)

    def overdue(self, now: float, grace: float) -> list[Hand]:
        """Loses the jobs whose leases have ended.

        Returns those whose handlers still go on `grace` seconds after they were told to end.
        """
        with self._lock:
            for hand in self._hands.values():
                if hand.state is State.HELD and not hand.ending and hand.is_over(now):
                    hand.state = State.LOST
                    hand.tell(now)
            return [
                hand
                for hand in self._hands.values()
                if hand.told_at is not None and hand.told_at + grace <= now and not hand.ending
            ]

    def wait_empty(self, timeout: float) -> bool:
        """Waits in a thread until no job is in hand; at most `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._hands, timeout)
