//! The effect of each action on hand-outs.

use super::{ATTEMPTS, Action, COPIES, Copy, External, Fate, Row, State, Where};
use crate::kernel::{index, next_send};
use crate::vocabulary::{Promise, Steps, Subject as _};

impl Steps for External {
    type State = State;
    type Action = Action;

    fn step(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        next.broken = None;
        match action {
            Action::Send { job } => {
                let send = next_send(&state.now.fates[index(job)]).filter(|_| state.now.rows[index(job)].is_none())?;
                next.now.rows[index(job)] = Some(Row { out: false, token: 0, attempt: 0, send, hand_out: 0, spent: 0 });
                next.now.fates[index(job)][index(send)] = Fate::Live;
            }
            Action::Cancel { job } => {
                let row = next.now.rows[index(job)].take()?;
                next.now.fates[index(job)][index(row.send)] = Fate::Cancelled;
            }
            Action::HandOut { job } => {
                // hand_out.sql moves the row; then its node publishes the message.
                let row = state.now.rows[index(job)].filter(|row| !row.out)?;
                let free = next.copies.iter_mut().find(|copy| copy.is_none())?;
                next.hand_outs += 1;
                let hand_out = next.hand_outs;
                let token = if self.rules.claimers_draw_numbers { hand_out } else { row.token + 1 };
                *free = Some(Copy { job, token, hand_out, place: Where::Publishing });
                next.now.rows[index(job)] = Some(Row { out: true, token, attempt: row.attempt + 1, hand_out, ..row });
            }
            Action::Publish { copy, confirmed } => {
                let at = state.copies[index(copy)].filter(|at| at.place == Where::Publishing)?;
                let queued = Some(Copy { place: Where::Queued, ..at });
                if confirmed {
                    next.copies[index(copy)] = queued;
                } else {
                    // It is in the queue, and its node does not know that.
                    *next.copies.iter_mut().find(|copy| copy.is_none())? = queued;
                    next.faults.network += 1;
                }
            }
            Action::TakeBack { copy } => {
                // take_back.sql: only if this is still the row's hand-out; costs no attempt.
                let at = next.copies[index(copy)].take().filter(|at| at.place == Where::Publishing)?;
                if let Some(row) = self.fenced(&mut next, at) {
                    next.now.rows[index(at.job)] = Some(self.back(Row { attempt: row.attempt - 1, ..row }));
                }
            }
            Action::Forgotten { copy } => {
                next.copies[index(copy)].take().filter(|at| at.place == Where::Publishing)?;
                next.faults.network += 1;
            }
            Action::Deliver { copy } => {
                let at = next.copies[index(copy)].as_mut().filter(|at| at.place == Where::Queued)?;
                at.place = Where::Worker;
            }
            Action::Redeliver { copy } => {
                let at = state.copies[index(copy)].filter(|at| at.place == Where::Worker)?;
                *next.copies.iter_mut().find(|copy| copy.is_none())? = Some(Copy { place: Where::Queued, ..at });
                next.faults.network += 1;
            }
            Action::Report { copy, success, confirmed } => self.report(state, &mut next, copy, success, confirmed)?,
            Action::Expire { job } => {
                let row = state.now.rows[index(job)].filter(|row| row.out)?;
                self.back_or_buried(&mut next, job, Row { spent: row.spent + 1, ..row });
            }
            Action::Save => {
                if state.before == state.now {
                    return None;
                }
                next.before = state.now;
                next.faults.forgets += 1;
            }
            Action::Restore => {
                if state.before == state.now {
                    return None;
                }
                next.now = state.before;
                next.faults.forgets += 1;
            }
        }
        // The order of copies does not matter.
        next.copies.sort_unstable_by_key(|copy| copy.map_or((1, None), |copy| (0, Some(copy))));
        Some(next)
    }

    /// Messages in flight arrive and are processed; then late hand-outs time out; then waiting jobs are handed out.
    fn repair(&self, state: &State) -> Option<Action> {
        let possible = |action: &Action| self.step(state, *action).is_some();
        let copies = (0..COPIES as u8).flat_map(|copy| {
            [
                Action::Publish { copy, confirmed: true },
                Action::Deliver { copy },
                Action::Report { copy, success: true, confirmed: true },
                Action::Report { copy, success: false, confirmed: true },
            ]
        });
        let late = (0..self.jobs).map(|job| Action::Expire { job });
        let waiting = (0..self.jobs).map(|job| Action::HandOut { job });
        copies.chain(late).chain(waiting).find(possible)
    }
}

impl External {
    /// `complete_external`, `settle_external`.
    fn report(&self, state: &State, next: &mut State, copy: u8, success: bool, confirmed: bool) -> Option<()> {
        let at = state.copies[index(copy)]?;
        let meant = match at.place {
            Where::Publishing | Where::Queued => false,
            Where::Worker => true,
            Where::Succeeded => success,
            Where::Failed => !success,
        };
        if !meant {
            return None;
        }
        if let Some(row) = self.fenced(next, at) {
            if success {
                next.now.rows[index(at.job)] = None;
                next.now.fates[index(at.job)][index(row.send)] = Fate::Done;
            } else {
                self.back_or_buried(next, at.job, Row { spent: row.spent + 1, ..row });
            }
        }
        let place = if success { Where::Succeeded } else { Where::Failed };
        next.copies[index(copy)] = (!confirmed).then_some(Copy { place, ..at });
        next.faults.network += u8::from(!confirmed);
        Some(())
    }

    /// Returns the row of a hand-out, if this is still the current one.
    fn fenced(&self, next: &mut State, copy: Copy) -> Option<Row> {
        let row = next.now.rows[index(copy.job)].filter(|row| row.out)?;
        if self.rules.outcomes_are_fenced && row.token != copy.token {
            return None;
        }
        if row.hand_out != copy.hand_out && self.watches(Promise::OutcomesAreTheirOwn) {
            next.broken = Some(Promise::OutcomesAreTheirOwn);
        }
        Some(row)
    }

    fn back_or_buried(&self, next: &mut State, job: u8, row: Row) {
        if row.attempt >= ATTEMPTS {
            next.now.rows[index(job)] = None;
            next.now.fates[index(job)][index(row.send)] = Fate::Dead;
        } else {
            next.now.rows[index(job)] = Some(self.back(row));
        }
    }

    fn back(&self, row: Row) -> Row {
        let token = if self.rules.claimers_draw_numbers { 0 } else { row.token };
        Row { out: false, token, hand_out: 0, ..row }
    }
}
