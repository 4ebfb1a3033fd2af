//! The effects of the statements on rows and the permit, whichever process runs them, and whenever.

use super::{ATTEMPTS, Leases, PermitHolder, Report, Row, RowState, State};
use crate::kernel::index;

/// The result of a group claim.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    /// The jobs, one bit each.
    pub(super) jobs: u8,
    /// The number of the lease under which they were taken.
    pub(super) lease: Option<u8>,
}

impl State {
    /// Frees the permit, which makes an admission pass due.
    pub(super) fn free(&mut self) {
        self.permit = PermitHolder::Nobody;
        self.open = true;
    }

    /// Frees the permit of an admitted row.
    pub(super) fn free_of(&mut self, job: u8) {
        if self.permit == PermitHolder::Job(job) {
            self.free();
        }
    }

    /// A handler whose outcome is refused has ended nevertheless.
    pub(super) fn handler_ended(&mut self, node: u8, claim: u8) {
        if self.permit == (PermitHolder::Left { node, claim }) {
            self.free();
        }
    }

    /// Draws the number of a new claim.
    pub(super) fn draw(&mut self) -> u8 {
        self.claims += 1;
        self.claims
    }

    /// Claims a row.
    pub(super) fn own(&mut self, job: u8, row: Row, node: u8, claim: u8, in_group_run: bool) {
        let place = RowState::Owned { node, claim, in_group_run };
        self.rows[index(job)] = Some(Row { place, attempt: row.attempt + 1, ..row });
    }
}

impl Leases {
    /// Returns the row that this claim's outcome refers to; `None`: the outcome is refused.
    pub(super) fn accepts(&self, next: &mut State, node: u8, job: u8, claim: u8) -> Option<Row> {
        let row = next.rows[index(job)]?;
        let RowState::Owned { node: owner, claim: current, .. } = row.place else { return None };
        if owner != node || (self.rules.outcomes_are_fenced && current != claim) {
            return None;
        }
        next.usurped |= current != claim;
        Some(row)
    }

    /// Removes the jobs that have ended. If one of them held the permit itself, or the node has the lease that it names, this claims the next jobs;
    /// if there are none, it frees the permit.
    pub(super) fn complete_and_claim_next(&self, next: &mut State, report: &Report) -> Taken {
        let node = report.node;
        let mut may_take = false;
        for (job, claim) in report.ended.into_iter().flatten() {
            let had = next.permit == PermitHolder::Job(job);
            if let Some(row) = self.accepts(next, node, job, claim) {
                self.remove(next, job, row);
                may_take |= had;
            } else {
                next.handler_ended(node, claim);
                may_take |= had && !self.rules.group_claims_are_fenced;
            }
        }
        let lease = match next.permit {
            PermitHolder::Lease { node: of, number } if of == node => Some(number),
            _ => None,
        };
        may_take |= report.lease.is_some_and(|named| {
            let is = lease.is_some_and(|number| number == named || !self.rules.leases_are_numbered);
            is || !self.rules.leases_are_checked
        });
        if !may_take {
            return Taken::default();
        }
        // A dead node claims nothing, and keeps nothing.
        let most = if next.nodes.is_dead(node) { 0 } else { usize::from(report.most) };
        let waits = |job: &u8| next.rows[index(*job)].is_some_and(|row| row.place == RowState::Blocked);
        let jobs = (0..self.jobs).filter(waits).take(most).fold(0, |jobs, job| jobs | 1 << job);
        if jobs == 0 {
            next.free();
            return Taken::default();
        }
        for job in (0..self.jobs).filter(|job| jobs >> job & 1 == 1) {
            if let Some(row) = next.rows[index(job)] {
                next.own(job, row, node, report.number, true);
            }
        }
        let number = lease.unwrap_or(report.number);
        next.permit = PermitHolder::Lease { node, number };
        Taken { jobs, lease: Some(number) }
    }

    /// Commits a handler's own transaction: removes its row, and turns a permit that the job held itself into a lease. Returns whether it held one.
    pub(super) fn commit(&self, next: &mut State, report: &Report) -> bool {
        let Report { node, number, .. } = *report;
        let Some((job, claim)) = report.ended.into_iter().flatten().next() else { return false };
        let Some(row) = self.accepts(next, node, job, claim) else {
            next.handler_ended(node, claim);
            return false;
        };
        let had = next.permit == PermitHolder::Job(job);
        self.remove(next, job, row);
        if had && self.rules.commits_make_leases {
            next.permit = PermitHolder::Lease { node, number };
        } else if had {
            next.free();
        }
        had
    }

    /// Removes a row that is done. The calling statement decides about the permit.
    fn remove(&self, next: &mut State, job: u8, row: Row) {
        next.rows[index(job)] = None;
        let RowState::Owned { node, in_group_run: true, .. } = row.place else { return };
        if !self.rules.leases_outlive_rows && matches!(next.permit, PermitHolder::Lease { node: of, .. } if of == node)
        {
            next.free();
        }
    }

    /// Spends an attempt. `None`: it was the last.
    pub(super) fn spend(row: Row) -> Option<Row> {
        (row.attempt < ATTEMPTS).then_some(Row { spent: row.spent + 1, ..row })
    }

    /// Returns an owned row to where it was claimed.
    fn put_back(&self, next: &mut State, job: u8, row: Row, looked_for: bool) {
        let in_group_run = matches!(row.place, RowState::Owned { in_group_run: true, .. });
        let waits = in_group_run && self.rules.group_runs_go_back_to_their_key;
        let place = if waits { RowState::Blocked } else { RowState::Admitted };
        next.open |= waits && looked_for;
        next.rows[index(job)] = Some(Row { place, ..row });
    }

    /// Gives back a job that has not started, with its attempt.
    pub(super) fn give_back(&self, next: &mut State, job: u8, row: Row) {
        let row = Row { attempt: row.attempt - 1, ..row };
        self.put_back(next, job, row, self.rules.what_is_given_back_is_looked_for);
    }

    /// Releases a job of a dead node.
    pub(super) fn release(&self, next: &mut State, job: u8, row: Row) {
        if let Some(row) = Self::spend(row) {
            self.put_back(next, job, row, self.rules.what_is_released_is_looked_for);
        } else {
            next.rows[index(job)] = None;
            next.free_of(job);
        }
    }
}
