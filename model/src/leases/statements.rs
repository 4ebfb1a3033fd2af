//! What the statements do to rows and the slot, whoever runs them and whenever.

use super::{ATTEMPTS, Leases, Place, Report, Row, Slot, State};
use crate::vocabulary::slot;

/// What a hand-on answers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    /// The jobs, one bit each.
    pub(super) jobs: u8,
    /// The number of the lease under which they were taken.
    pub(super) lease: Option<u8>,
}

impl State {
    /// The slot is nobody's, and a round has to look who is next.
    pub(super) fn free(&mut self) {
        self.slot = Slot::Nobody;
        self.open = true;
    }

    /// The slot of an admitted row is nobody's.
    pub(super) fn free_of(&mut self, job: u8) {
        if self.slot == Slot::Job(job) {
            self.free();
        }
    }

    /// A handler whose outcome is refused has ended nevertheless.
    pub(super) fn handler_ended(&mut self, node: u8, claim: u8) {
        if self.slot == (Slot::Left { node, claim }) {
            self.free();
        }
    }

    /// The number of a new claim.
    pub(super) fn draw(&mut self) -> u8 {
        self.claims += 1;
        self.claims
    }

    /// A row is claimed.
    pub(super) fn own(&mut self, job: u8, row: Row, node: u8, claim: u8, gated: bool) {
        let place = Place::Owned { node, claim, gated };
        self.rows[slot(job)] = Some(Row { place, attempt: row.attempt + 1, ..row });
    }
}

impl Leases {
    /// The row that the outcome of this claim is about; none: it is refused.
    pub(super) fn accepts(&self, next: &mut State, node: u8, job: u8, claim: u8) -> Option<Row> {
        let row = next.rows[slot(job)]?;
        let Place::Owned { node: owner, claim: current, .. } = row.place else { return None };
        if owner != node || (self.rules.outcomes_are_fenced && current != claim) {
            return None;
        }
        next.usurped |= current != claim;
        Some(row)
    }

    /// Removes what has ended. Where that had the slot in its own name, or the node has the lease that it names, takes the next ones; where there
    /// are none, the slot is nobody's.
    pub(super) fn hand_on(&self, next: &mut State, report: &Report) -> Taken {
        let node = report.node;
        let mut may_take = false;
        for (job, claim) in report.ended.into_iter().flatten() {
            let had = next.slot == Slot::Job(job);
            if let Some(row) = self.accepts(next, node, job, claim) {
                self.remove(next, job, row);
                may_take |= had;
            } else {
                next.handler_ended(node, claim);
                may_take |= had && !self.rules.hand_ons_are_fenced;
            }
        }
        let lease = match next.slot {
            Slot::Lease { node: of, number } if of == node => Some(number),
            _ => None,
        };
        may_take |= report.lease.is_some_and(|named| {
            let is = lease.is_some_and(|number| number == named || !self.rules.leases_are_numbered);
            is || !self.rules.leases_are_checked
        });
        if !may_take {
            return Taken::default();
        }
        // The dead claim nothing, and keep nothing.
        let most = if next.is_dead(node) { 0 } else { usize::from(report.most) };
        let waits = |job: &u8| next.rows[slot(*job)].is_some_and(|row| row.place == Place::Blocked);
        let jobs = (0..self.jobs).filter(waits).take(most).fold(0, |jobs, job| jobs | 1 << job);
        if jobs == 0 {
            next.free();
            return Taken::default();
        }
        for job in (0..self.jobs).filter(|job| jobs >> job & 1 == 1) {
            if let Some(row) = next.rows[slot(job)] {
                next.own(job, row, node, report.number, true);
            }
        }
        let number = lease.unwrap_or(report.number);
        next.slot = Slot::Lease { node, number };
        Taken { jobs, lease: Some(number) }
    }

    /// The commit of a handler's own transaction: removes its row, and what that had in its own name becomes a lease. Answers
    /// whether it has.
    pub(super) fn commit(&self, next: &mut State, report: &Report) -> bool {
        let Report { node, number, .. } = *report;
        let Some((job, claim)) = report.ended.into_iter().flatten().next() else { return false };
        let Some(row) = self.accepts(next, node, job, claim) else {
            next.handler_ended(node, claim);
            return false;
        };
        let had = next.slot == Slot::Job(job);
        self.remove(next, job, row);
        if had && self.rules.commits_make_leases {
            next.slot = Slot::Lease { node, number };
        } else if had {
            next.free();
        }
        had
    }

    /// A row is done. What becomes of the slot, the statement says.
    fn remove(&self, next: &mut State, job: u8, row: Row) {
        next.rows[slot(job)] = None;
        let Place::Owned { node, gated: true, .. } = row.place else { return };
        if !self.rules.leases_outlive_rows && matches!(next.slot, Slot::Lease { node: of, .. } if of == node) {
            next.free();
        }
    }

    /// An attempt is spent. None: it was the last.
    pub(super) fn spend(row: Row) -> Option<Row> {
        (row.attempt < ATTEMPTS).then_some(Row { spent: row.spent + 1, ..row })
    }

    /// What was owned goes back to where it was claimed.
    fn put_back(&self, next: &mut State, job: u8, row: Row, looked_for: bool) {
        let gated = matches!(row.place, Place::Owned { gated: true, .. });
        let waits = gated && self.rules.lines_go_back_to_their_gate;
        let place = if waits { Place::Blocked } else { Place::Admitted };
        next.open |= waits && looked_for;
        next.rows[slot(job)] = Some(Row { place, ..row });
    }

    /// Of what has not started, which gets its attempt back.
    pub(super) fn give_back(&self, next: &mut State, job: u8, row: Row) {
        let row = Row { attempt: row.attempt - 1, ..row };
        self.put_back(next, job, row, self.rules.what_is_given_back_is_looked_for);
    }

    /// Of a dead node's.
    pub(super) fn release(&self, next: &mut State, job: u8, row: Row) {
        if let Some(row) = Self::spend(row) {
            self.put_back(next, job, row, self.rules.what_is_released_is_looked_for);
        } else {
            next.rows[slot(job)] = None;
            next.free_of(job);
        }
    }
}
