//! The effect of each action on permits.

use super::{ATTEMPTS, Action, Groups, IN_FLIGHT, JOBS, Left, PROCESSES, Process, Row, RowState, SENDS, State};
use crate::kernel::index;
use crate::vocabulary::Steps;

impl Steps for Groups {
    type State = State;
    type Action = Action;

    #[expect(clippy::too_many_lines, reason = "one arm for each action")]
    fn step(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        match action {
            Action::Send { job } => {
                if state.rows[index(job)].is_some() || state.sent[index(job)] >= SENDS {
                    return None;
                }
                next.rows[index(job)] = Some(Row { place: RowState::Blocked, attempt: 0 });
                next.sent[index(job)] += 1;
            }
            Action::Admit { job } => {
                let row = state.rows[index(job)].filter(|row| row.place == RowState::Blocked)?;
                let taken = state.permits.count_ones() as usize + state.left.iter().flatten().count();
                // If a job's id holds the permit, a new job with that id has one already.
                let has = state.permits >> job & 1 == 1;
                if !has && taken >= self.limit {
                    return None;
                }
                next.permits |= 1 << job;
                next.rows[index(job)] = Some(Row { place: RowState::Admitted, ..row });
            }
            Action::Claim { process, job, answered } => {
                let row = state.rows[index(job)].filter(|row| row.place == RowState::Admitted)?;
                let at = &mut next.processes[index(process)];
                let node = at.node;
                let free = at.hand.iter().position(Option::is_none)?;
                if node == 0 || state.nodes.is_dead(node) {
                    return None;
                }
                next.claims += 1;
                let claim = next.claims;
                at.hand[free] = answered.then_some((job, claim));
                next.rows[index(job)] = Some(Row { place: RowState::Owned { node, claim }, attempt: row.attempt + 1 });
                next.faults.lost += u8::from(!answered);
            }
            Action::Succeed { process, hand } | Action::Fail { process, hand } => {
                let (job, claim) = next.processes[index(process)].hand[index(hand)].take()?;
                let node = state.processes[index(process)].node;
                let row = state.rows[index(job)].filter(|row| row.place == RowState::Owned { node, claim });
                match row {
                    // The job was cancelled: a refused outcome still shows that the handler has ended.
                    None => self.handler_ended(&mut next, job, node, claim),
                    Some(row) => {
                        let again = matches!(action, Action::Fail { .. }) && row.attempt < ATTEMPTS;
                        // A failed job is due again later, and then waits for a permit again.
                        next.rows[index(job)] = again.then_some(Row { place: RowState::Blocked, ..row });
                        next.permits &= !(1 << job);
                    }
                }
            }
            Action::Cancel { job } => {
                let row = next.rows[index(job)].take()?;
                match row.place {
                    RowState::Owned { node, claim } if self.rules.permits_outlive_rows => {
                        if self.rules.permits_belong_to_claims {
                            next.permits &= !(1 << job);
                            *next.left.iter_mut().find(|left| left.is_none())? = Some(Left { job, node, claim });
                        }
                        // Otherwise the permit stays with the job's id.
                    }
                    RowState::Admitted | RowState::Owned { .. } => next.permits &= !(1 << job),
                    RowState::Blocked => {}
                }
            }
            Action::Told { process, hand } => {
                let node = state.processes[index(process)].node;
                let (job, claim) = state.processes[index(process)].hand[index(hand)]?;
                if state.rows[index(job)].is_some_and(|row| row.place == RowState::Owned { node, claim }) {
                    return None;
                }
                next.processes[index(process)].hand[index(hand)] = None;
                self.handler_ended(&mut next, job, node, claim);
            }
            Action::Look { process } => {
                let at = state.processes[index(process)];
                if at.node == 0 {
                    return None;
                }
                let knows = |claim: u8| at.hand.iter().flatten().any(|(_, held)| *held == claim);
                for row in next.rows.iter_mut().flatten() {
                    if matches!(row.place, RowState::Owned { node, claim } if node == at.node && !knows(claim)) {
                        // It keeps its permit, and waits for another claim.
                        *row = Row { place: RowState::Admitted, attempt: row.attempt - 1 };
                    }
                }
                // A claim whose answer got lost can leave a permit too.
                for left in next.left.iter_mut().filter(|_| self.rules.looks_see_permits) {
                    *left = left.filter(|left| left.node != at.node || knows(left.claim));
                }
                if next == *state {
                    return None;
                }
            }
            Action::Fence { process } | Action::Crash { process } => {
                if state.processes[index(process)].node == 0 {
                    return None;
                }
                next.processes[index(process)] = Process::default();
                let faults = &mut next.faults;
                let count =
                    if matches!(action, Action::Fence { .. }) { &mut faults.deaths } else { &mut faults.crashes };
                *count += 1;
            }
            Action::Register { process } => {
                if state.processes[index(process)].node != 0 {
                    return None;
                }
                next.processes[index(process)].node = next.nodes.register();
            }
            Action::Declare { node } => {
                if state.is_lived(node) {
                    return None;
                }
                next.nodes.declare(node)?;
                if !self.rules.permits_of_the_dead_are_swept {
                    self.free_left(&mut next);
                }
            }
            Action::Free => {
                // Not only when the node is declared dead: a row can be cancelled between that and its release.
                self.free_left(&mut next);
                if next == *state || !self.rules.permits_of_the_dead_are_swept {
                    return None;
                }
            }
            Action::Release { job } => {
                let row = state.rows[index(job)]?;
                if !matches!(row.place, RowState::Owned { node, .. } if state.nodes.is_dead(node)) {
                    return None;
                }
                let again = row.attempt < ATTEMPTS;
                next.rows[index(job)] = again.then_some(Row { place: RowState::Admitted, ..row });
                if !again {
                    next.permits &= !(1 << job);
                }
            }
        }
        // The order of the left permits does not matter.
        next.left.sort_unstable_by_key(|left| left.map_or(u8::MAX, |left| left.claim));
        Some(next)
    }

    /// Deaths, what is owned, handlers, admission, claims.
    fn repair(&self, state: &State) -> Option<Action> {
        let processes = || 0..PROCESSES as u8;
        let hands = || processes().flat_map(|process| (0..IN_FLIGHT as u8).map(move |hand| (process, hand)));
        let jobs = || 0..self.jobs;
        let possible = |action: &Action| self.step(state, *action).is_some();
        let registers = processes().map(|process| Action::Register { process });
        let deaths = state.nodes.all().map(|node| Action::Declare { node });
        let released = jobs().map(|job| Action::Release { job }).chain([Action::Free]);
        let looks = processes().map(|process| Action::Look { process });
        let handlers = hands().map(|(process, hand)| Action::Succeed { process, hand });
        let admissions = jobs().map(|job| Action::Admit { job });
        let claims =
            jobs().flat_map(|job| processes().map(move |process| Action::Claim { process, job, answered: true }));
        registers
            .chain(deaths)
            .chain(released)
            .chain(looks)
            .chain(handlers)
            .chain(admissions)
            .chain(claims)
            .find(possible)
    }
}

impl Groups {
    fn handler_ended(&self, next: &mut State, job: u8, node: u8, claim: u8) {
        if self.rules.permits_belong_to_claims {
            for left in &mut next.left {
                *left = left.filter(|left| left.node != node || left.claim != claim);
            }
        } else if self.rules.permits_outlive_rows {
            next.permits &= !(1 << job);
        }
    }

    fn free_left(&self, next: &mut State) {
        let nodes = next.nodes;
        for left in &mut next.left {
            *left = left.filter(|left| !nodes.is_dead(left.node));
        }
        // Only for the twin whose permits belong to job ids: those without a row or a handler.
        if self.rules.permits_outlive_rows && !self.rules.permits_belong_to_claims {
            for job in 0..JOBS as u8 {
                let runs = next.processes.iter().any(|at| at.hand.iter().flatten().any(|(held, _)| *held == job));
                if next.rows[index(job)].is_none() && !runs {
                    next.permits &= !(1 << job);
                }
            }
        }
    }
}
