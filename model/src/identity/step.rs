//! The effect of each action on one id in several tables.

use super::{ATTEMPTS, Action, Identity, Innocent, Row, SENDERS, Sender, State, Table};
use crate::kernel::index;
use crate::vocabulary::Steps;

impl Table {
    fn at(self) -> usize {
        self as usize
    }
}

impl Steps for Identity {
    type State = State;
    type Action = Action;

    #[expect(clippy::too_many_lines, reason = "one arm for each action")]
    fn step(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        let (job, timer, dead) = (Table::Job.at(), Table::Timer.at(), Table::Dead.at());
        match action {
            Action::Begin { sender } => {
                let at = &mut next.senders[index(sender)];
                if *at != Sender::Idle {
                    return None;
                }
                *at = Sender::Begun { saw: state.places() > 0, sends: state.sends };
            }
            Action::Flush { sender } => next.senders[index(sender)] = self.flush(state, sender)?,
            Action::Commit { sender } => {
                let Sender::Flushed(into) = state.senders[index(sender)] else { return None };
                next.senders[index(sender)] = Sender::Ended;
                if let Some(table) = into {
                    next.rows[table.at()] = Some(Row { owner: 0, attempt: 0, spent: 0 });
                    next.sends += 1;
                }
            }
            Action::RollBack { sender } => {
                let at = &mut next.senders[index(sender)];
                if matches!(at, Sender::Idle | Sender::Ended) {
                    return None;
                }
                *at = Sender::Ended;
            }
            Action::Again { sender } => {
                if state.senders[index(sender)] != Sender::Ended {
                    return None;
                }
                next.senders[index(sender)] = Sender::Idle;
            }
            Action::Claim => {
                let row = next.rows[job].as_mut().filter(|row| row.owner == 0)?;
                *row = Row { owner: state.node, attempt: row.attempt + 1, ..*row };
            }
            Action::Succeed => {
                next.rows[job].take().filter(|row| row.owner == state.node)?;
                next.ended += 1;
            }
            Action::Fail => {
                let row = state.rows[job].filter(|row| row.owner == state.node)?;
                let ran = Row { owner: 0, spent: row.spent + 1, ..row };
                let to = if row.attempt >= ATTEMPTS { dead } else { timer };
                if state.rows[to].is_some() {
                    // The unique index refuses the whole statement; then the job is given back, with its attempt.
                    next.rows[job] = Some(Row { attempt: row.attempt - 1, ..ran });
                } else {
                    next.rows[job] = None;
                    next.rows[to] = Some(ran);
                }
            }
            Action::Promote | Action::Revive => {
                let from = if action == Action::Promote { timer } else { dead };
                let row = next.rows[from].take()?;
                let row = if action == Action::Promote { row } else { Row { owner: 0, attempt: 0, spent: 0 } };
                next.revived += u8::from(action == Action::Revive);
                // `on conflict do nothing`: the existing row stays, and the new one is lost.
                next.rows[job] = state.rows[job].or(Some(row));
            }
            Action::Cancel => {
                if state.places() == 0 {
                    return None;
                }
                next.ended += state.places() as u8;
                next.rows = Default::default();
            }
            Action::ClaimInnocent => {
                if state.innocent != Innocent::Waiting {
                    return None;
                }
                next.innocent = Innocent::Owned(state.node);
            }
            Action::EndInnocent => {
                if state.innocent != Innocent::Owned(state.node) {
                    return None;
                }
                next.innocent = Innocent::Ended;
            }
            Action::Crash => {
                next.node += 1;
            }
            Action::Release => {
                // release_lost.sql: a single statement for all of them, so an error of one affects all.
                let lost = |owner: u8| owner != 0 && owner < state.node;
                let innocent = matches!(state.innocent, Innocent::Owned(owner) if lost(owner));
                let row = state.rows[job].filter(|row| lost(row.owner));
                if !innocent && row.is_none() {
                    return None;
                }
                if let Some(row) = row {
                    let ran = Row { owner: 0, spent: row.spent + 1, ..row };
                    if row.attempt < ATTEMPTS {
                        next.rows[job] = Some(ran);
                    } else if state.rows[dead].is_some() {
                        return None;
                    } else {
                        next.rows[job] = None;
                        next.rows[dead] = Some(ran);
                    }
                }
                if innocent {
                    next.innocent = Innocent::Waiting;
                }
            }
        }
        Some(next)
    }

    /// Senders end, then lost jobs are released, then handlers end, then due and waiting jobs continue.
    fn repair(&self, state: &State) -> Option<Action> {
        let possible = |action: &Action| self.step(state, *action).is_some();
        let senders = (0..SENDERS as u8).map(|sender| Action::Commit { sender });
        let rest = [
            Action::Release,
            Action::EndInnocent,
            Action::Succeed,
            Action::ClaimInnocent,
            Action::Claim,
            Action::Promote,
        ];
        senders.chain(rest).find(possible)
    }
}

impl Identity {
    /// Inserts the given id. `None`: it has to wait for another sender.
    fn flush(&self, state: &State, sender: u8) -> Option<Sender> {
        let table = if sender == 0 { Table::Job } else { Table::Timer };
        let (saw, since) = match state.senders[index(sender)] {
            // Each statement sees what is committed when it begins.
            Sender::Idle => (state.places() > 0, state.sends),
            Sender::Begun { saw, sends } => (saw, sends),
            Sender::Flushed(_) | Sender::Ended => return None,
        };
        let other = state.senders[(index(sender) + 1) % SENDERS];
        if self.rules.ids_are_decided_once {
            // The row of the id is locked from here to the end of the transaction. A sender that finds it locked waits; one with a snapshot from
            // before its last change is refused, and has sent nothing.
            if matches!(other, Sender::Flushed(Some(_))) {
                return None;
            }
            if since != state.sends {
                return Some(Sender::Ended);
            }
            return Some(Sender::Flushed((!saw).then_some(table)));
        }
        // Checks each table, and uses `on conflict do nothing` in the target table, which waits for another insert into the same.
        if !saw && other == Sender::Flushed(Some(table)) {
            return None;
        }
        Some(Sender::Flushed((!saw && state.rows[table.at()].is_none()).then_some(table)))
    }
}
