//! The effect of each action on jobs that are taken by SQL.

use super::{ATTEMPTS, Action, Fate, Row, Stage, State, Taken, WORKERS, Work};
use crate::kernel::{index, next_send};
use crate::vocabulary::{Promise, Steps, Subject as _};

impl Steps for Taken {
    type State = State;
    type Action = Action;

    fn step(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        next.broken = None;
        match action {
            Action::Send { job } => {
                let send = next_send(&state.fates[index(job)]).filter(|_| state.rows[index(job)].is_none())?;
                let row = Row { out: false, token: 0, attempt: 0, locked_by: None, send, hand_out: 0, spent: 0 };
                next.rows[index(job)] = Some(row);
                next.fates[index(job)][index(send)] = Fate::Live;
            }
            Action::Cancel { job } => {
                // It waits for a row that is locked.
                let row = next.rows[index(job)].take().filter(|row| row.locked_by.is_none())?;
                next.fates[index(job)][index(row.send)] = Fate::Cancelled;
            }
            Action::Take { process, job } => {
                let row = state.rows[index(job)].filter(|row| !row.out)?;
                if state.workers[index(process)].is_some() {
                    return None;
                }
                next.hand_outs += 1;
                let hand_out = next.hand_outs;
                let token = if self.rules.claimers_draw_numbers { hand_out } else { row.token + 1 };
                next.rows[index(job)] = Some(Row { out: true, token, attempt: row.attempt + 1, hand_out, ..row });
                next.workers[index(process)] = Some(Work { job, token, hand_out, stage: Stage::Works });
            }
            Action::Expire { job } => {
                let row = state.rows[index(job)].filter(|row| row.out)?;
                if row.locked_by.is_some() && self.rules.locked_hand_outs_are_passed_over {
                    return None;
                }
                self.back_or_buried(&mut next, job, row);
            }
            Action::End { process, success } => self.end(&mut next, process, success)?,
            Action::Commit { process } => self.commit(&mut next, process)?,
            Action::Abort { process } => {
                let work = state.workers[index(process)].filter(|work| work.stage != Stage::Works)?;
                next.unlock(work.job, process);
                next.workers[index(process)] = None;
                // A transaction that can't commit is always rolled back.
                next.faults.crashes += u8::from(matches!(work.stage, Stage::Ends { accepted: true, .. }));
            }
            Action::Die { process } => {
                let work = next.workers[index(process)].take()?;
                next.unlock(work.job, process);
                next.faults.crashes += 1;
            }
        }
        Some(next)
    }

    /// Transactions end; then workers end their jobs; then late hand-outs time out; then waiting jobs are taken.
    fn repair(&self, state: &State) -> Option<Action> {
        let possible = |action: &Action| self.step(state, *action).is_some();
        let workers = || 0..WORKERS as u8;
        let ends = workers().flat_map(|process| [Action::Commit { process }, Action::Abort { process }]);
        let works = workers().map(|process| Action::End { process, success: true });
        let late = (0..self.jobs).map(|job| Action::Expire { job });
        let takes = (0..self.jobs).flat_map(|job| workers().map(move |process| Action::Take { process, job }));
        ends.chain(works).chain(late).chain(takes).find(possible)
    }
}

impl State {
    /// Ends the lock of a worker's transaction.
    fn unlock(&mut self, job: u8, worker: u8) {
        if let Some(row) = self.rows[index(job)].as_mut().filter(|row| row.locked_by == Some(worker)) {
            row.locked_by = None;
        }
    }
}

impl Taken {
    /// `done`, `fail`: the row is locked if it is the worker's, and removed or moved with the commit.
    fn end(&self, next: &mut State, process: u8, done: bool) -> Option<()> {
        let mut work = next.workers[index(process)].filter(|work| work.stage == Stage::Works)?;
        let is_fenced = self.rules.outcomes_are_fenced;
        let row = next.rows[index(work.job)].filter(|row| row.out && (row.token == work.token || !is_fenced));
        if row.is_some_and(|row| row.locked_by.is_some()) {
            // It waits for the transaction of the first end.
            return None;
        }
        work.stage = Stage::Ends { done, accepted: row.is_some() };
        next.workers[index(process)] = Some(work);
        if let Some(row) = row.filter(|_| self.rules.ends_lock_their_row) {
            next.rows[index(work.job)] = Some(Row { locked_by: Some(process), ..row });
        }
        Some(())
    }

    /// The commit of the work, with the end of its job.
    fn commit(&self, next: &mut State, process: u8) -> Option<()> {
        let work = next.workers[index(process)]?;
        let Stage::Ends { done, accepted } = work.stage else { return None };
        if !accepted && self.rules.late_ends_are_errors {
            // The transaction has failed.
            return None;
        }
        next.workers[index(process)] = None;
        let row = next.rows[index(work.job)];
        let is_own = row.is_some_and(|row| row.out && row.hand_out == work.hand_out);
        // A failure is recorded in a transaction of its own, without any work.
        if done && (!accepted || !is_own) && self.watches(Promise::WorkEndsWithItsJob) {
            next.broken = Some(Promise::WorkEndsWithItsJob);
        }
        let Some(row) = row.filter(|_| accepted) else { return Some(()) };
        if !is_own && self.watches(Promise::OutcomesAreTheirOwn) {
            next.broken = Some(Promise::OutcomesAreTheirOwn);
        }
        if done {
            next.rows[index(work.job)] = None;
            next.fates[index(work.job)][index(row.send)] = Fate::Done;
        } else {
            self.back_or_buried(next, work.job, row);
        }
        Some(())
    }

    /// Its attempt is spent.
    fn back_or_buried(&self, next: &mut State, job: u8, row: Row) {
        let row = Row { spent: row.spent + 1, locked_by: None, ..row };
        if row.attempt >= ATTEMPTS {
            next.rows[index(job)] = None;
            next.fates[index(job)][index(row.send)] = Fate::Dead;
        } else {
            let token = if self.rules.claimers_draw_numbers { 0 } else { row.token };
            next.rows[index(job)] = Some(Row { out: false, token, hand_out: 0, ..row });
        }
    }
}
