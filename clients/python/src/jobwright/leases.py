"""The leases of the jobs that a worker holds. It does no I/O and may be used from several threads."""

import enum
import threading
from collections.abc import Callable, Iterable
from uuid import UUID


class State(enum.Enum):
    HELD = "held"
    LOST = "lost"
    CANCELLED = "cancelled"


class Lease:
    """That of a job which this worker has taken. `ends_at` and `now` are of a monotonic clock, in seconds."""

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


class Leases:
    """All of a worker. It never has more than the worker has slots."""

    def __init__(self, length: float) -> None:
        self._length = length
        # By their tokens: a job that was lost may be taken again while its handler still runs.
        self._leases: dict[UUID, Lease] = {}
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    def __len__(self) -> int:
        return len(self._leases)

    def add(self, lease: Lease, now: float) -> None:
        with self._lock:
            for other in self._leases.values():
                # It was lost, and nothing has noticed yet: this clock may have stood still. A call names a job once.
                if other.id == lease.id and other.state is State.HELD:
                    other.state = State.LOST
                    other.tell(now)
            self._leases[lease.token] = lease

    def remove(self, lease: Lease) -> None:
        with self._changed:
            self._leases.pop(lease.token, None)
            self._changed.notify_all()

    def begin(self, lease: Lease, now: float) -> bool:
        """Whether the handler may begin: from then on the job is not given back."""
        with self._lock:
            lease.begun = lease.may_begin(now)
            return lease.begun

    def give_back(self) -> list[Lease]:
        """Takes the jobs that are not begun away from their slots, to be released."""
        with self._lock:
            idle = [lease for lease in self._leases.values() if not lease.begun]
            for lease in idle:
                lease.given_back = True
            return [lease for lease in idle if lease.state is not State.LOST]

    def held(self) -> list[Lease]:
        """Those whose leases are to be renewed."""
        with self._lock:
            return [lease for lease in self._leases.values() if lease.state is State.HELD]

    def renewed(self, asked: Iterable[Lease], rows: Iterable[tuple[UUID, str]], sent_at: float, now: float) -> bool:
        """Notes the answer of `extend_many` to a call that was sent at this time, about these jobs.

        Returns whether to ask again soon: another transaction is just ending a job, so its lease stays as it is.
        """
        undecided = False
        with self._lock:
            by_id = {lease.id: lease for lease in asked if lease.state is State.HELD}
            for id, state in rows:
                lease = by_id.get(id)
                if lease is None:
                    continue
                if state == State.HELD.value:
                    lease.ends_at = max(lease.ends_at, sent_at + self._length)
                elif state in (State.LOST.value, State.CANCELLED.value):
                    lease.state = State(state)
                    lease.tell(now)
                else:
                    undecided = True
        return undecided

    def ended(self, lease: Lease, state: State, now: float) -> None:
        """Notes that the job is no longer this worker's."""
        with self._lock:
            if lease.state is State.HELD:
                lease.state = state
            lease.tell(now)

    def stop(self, now: float) -> None:
        """The worker can wait no longer: tells all handlers."""
        with self._lock:
            for lease in self._leases.values():
                lease.stopped = True
                lease.tell(now)

    def overdue(self, now: float, grace: float) -> list[Lease]:
        """Loses the jobs whose leases have ended.

        Returns those whose handlers still go on `grace` seconds after they were told to end.
        """
        with self._lock:
            for lease in self._leases.values():
                if lease.state is State.HELD and not lease.ending and lease.is_over(now):
                    lease.state = State.LOST
                    lease.tell(now)
            return [
                lease
                for lease in self._leases.values()
                if lease.told_at is not None and lease.told_at + grace <= now and not lease.ending
            ]

    def wait_empty(self, timeout: float) -> bool:
        """Waits in a thread until no job is held; at most `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._leases, timeout)
