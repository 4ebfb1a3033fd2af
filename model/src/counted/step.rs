//! The effect of each action on counted jobs.

use super::{Action, Ask, Change, Counted, IN_FLIGHT, NODES, PROCESSES, Process, Row, State};
use crate::kernel::index;
use crate::vocabulary::Steps;

impl Steps for Counted {
    type State = State;
    type Action = Action;

    #[expect(clippy::too_many_lines, reason = "one arm for each action")]
    fn step(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        match action {
            Action::Send { job } => {
                if state.sent >> job & 1 == 1 {
                    return None;
                }
                next.sent |= 1 << job;
                next.rows[index(job)] = Some(Row::Waiting);
            }
            Action::Ask { process } => {
                let at = &mut next.processes[index(process)];
                let free = at.asks.iter().position(Option::is_none)?;
                // A claim under a limit waits for the claim before it.
                let waits = self.rules.counted_claims_take_turns && at.asks.iter().any(Option::is_some);
                if at.node == 0 || waits {
                    return None;
                }
                next.claims += 1;
                let mine = at.hand.iter().flatten().count() as u8;
                at.asks[free] = Some(Ask { claim: next.claims, mine, took: None });
            }
            Action::Run { process, ask } => {
                let at = state.processes[index(process)];
                let asked = at.asks[index(ask)].filter(|ask| ask.took.is_none())?;
                let took = self.count(&mut next, at.node, asked, true);
                next.processes[index(process)].asks[index(ask)] = Some(Ask { took: Some(took), ..asked });
            }
            Action::Answer { process, ask } => {
                let at = &mut next.processes[index(process)];
                let Ask { claim, took: Some(took), .. } = at.asks[index(ask)].take()? else { return None };
                for job in (0..self.jobs).filter(|job| took >> job & 1 == 1) {
                    let free = at.hand.iter().position(Option::is_none)?;
                    at.hand[free] = Some((job, claim));
                }
            }
            Action::GiveUp { process, ask } => {
                let at = &mut next.processes[index(process)];
                let asked = at.asks[index(ask)].take()?;
                if asked.took.is_none() {
                    if at.late.is_some() {
                        return None;
                    }
                    at.late = Some((at.node, asked));
                }
                next.faults.lost += 1;
            }
            Action::RunLate { process, finds } => {
                // The waiting jobs may be in another queue than it scans, or in another range of it.
                let (node, asked) = next.processes[index(process)].late.take()?;
                next.was_late |= state.usage[index(node)].is_some_and(|(_, version)| version > asked.claim);
                self.count(&mut next, node, asked, finds);
            }
            Action::Succeed { process, hand } => {
                let at = &mut next.processes[index(process)];
                let node = at.node;
                let (job, claim) = at.hand[index(hand)].take()?;
                match state.rows[index(job)] {
                    Some(Row::Owned { committing: true, .. }) => return None,
                    Some(Row::Owned { node: owner, claim: held, .. }) if (owner, held) == (node, claim) => {
                        next.rows[index(job)] = None;
                        next.permits &= !(1 << job);
                    }
                    // Refused.
                    _ => {}
                }
            }
            Action::Commit { process, hand } => {
                let at = state.processes[index(process)];
                let (job, claim) = at.hand[index(hand)]?;
                let owned = Row::Owned { node: at.node, claim, committing: false };
                if state.rows[index(job)] != Some(owned) {
                    return None;
                }
                next.rows[index(job)] = Some(Row::Owned { node: at.node, claim, committing: true });
            }
            Action::Decide { job, done } => {
                let Some(Row::Owned { node, claim, committing: true }) = state.rows[index(job)] else { return None };
                next.rows[index(job)] = (!done).then_some(Row::Owned { node, claim, committing: false });
                if done {
                    next.permits &= !(1 << job);
                    for held in next.processes.iter_mut().flat_map(|at| &mut at.hand) {
                        *held = held.filter(|held| *held != (job, claim));
                    }
                }
            }
            Action::Cancel { job } => {
                // Permits that outlive a cancelled job are the subject of `groups`.
                if matches!(state.rows[index(job)]?, Row::Owned { committing: true, .. })
                    || state.permits >> job & 1 == 1
                {
                    return None;
                }
                next.rows[index(job)] = None;
            }
            Action::Told { process, hand } => {
                let at = &mut next.processes[index(process)];
                let (job, claim) = at.hand[index(hand)].take()?;
                if matches!(state.rows[index(job)], Some(Row::Owned { claim: held, .. }) if held == claim) {
                    return None;
                }
            }
            Action::Look { process } => {
                let at = state.processes[index(process)];
                // Statements in flight come first, so that their results are known.
                if at.node == 0 || at.asks.iter().any(Option::is_some) {
                    return None;
                }
                for (job, row) in (0..).zip(&mut next.rows) {
                    if matches!(*row, Some(Row::Owned { node, claim, committing: false })
                        if node == at.node && !at.hand.iter().flatten().any(|held| *held == (job, claim)))
                    {
                        *row = Some(Row::Waiting);
                    }
                }
                if next == *state {
                    return None;
                }
            }
            Action::Crash { process } => {
                let at = &mut next.processes[index(process)];
                if at.node == 0 || state.nodes.all().count() + 1 >= NODES {
                    return None;
                }
                let sent = at.asks.iter().flatten().find(|ask| ask.took.is_none());
                let late = at.late.or(sent.map(|ask| (at.node, *ask)));
                *at = Process { late, ..Process::default() };
                next.faults.crashes += 1;
            }
            Action::Register { process } => {
                if state.processes[index(process)].node != 0 {
                    return None;
                }
                next.processes[index(process)].node = next.nodes.register();
            }
            Action::Declare { node } => {
                let lived = state.processes.iter().any(|at| at.node == node);
                if lived {
                    return None;
                }
                next.nodes.declare(node)?;
                if !self.rules.usage_outlives_rows {
                    next.usage[index(node)] = None;
                }
            }
            Action::Release { job } => {
                let Row::Owned { node, committing: false, .. } = state.rows[index(job)]? else { return None };
                if !state.nodes.is_dead(node) {
                    return None;
                }
                next.rows[index(job)] = Some(Row::Waiting);
            }
            Action::Free { node } => {
                let kept = !self.rules.usage_of_the_dead_is_freed || state.owns(node);
                if !state.nodes.is_dead(node) || kept || next.usage[index(node)].take().is_none() {
                    return None;
                }
            }
            Action::PutRule => {
                if state.change != Change::None {
                    return None;
                }
                next.change = Change::Put;
                if !self.rules.counts_are_handed_over_at_once {
                    next.usage = Default::default();
                }
            }
            Action::FinishChange => {
                // As built it does not wait for a handler whose job was cancelled, which has no row that could get a permit and ends soon.
                // Such a handler may run beside as many others as the limit allows.
                if state.change != Change::Put || state.outlives_its_row() || state.will_outlive_its_row() {
                    return None;
                }
                next.change = Change::Finished;
                next.usage = Default::default();
                for (job, row) in (0..).zip(&state.rows) {
                    next.permits |= u8::from(matches!(row, Some(Row::Owned { .. }))) << job;
                }
            }
            Action::Admit { job } => {
                let counted: u32 = state.usage.iter().flatten().map(|(n, _)| u32::from(*n)).sum();
                let admitted = state.permits >> job & 1 == 1;
                let full = state.permits.count_ones() + counted >= u32::from(self.limit);
                if state.change == Change::None || state.rows[index(job)] != Some(Row::Waiting) || admitted || full {
                    return None;
                }
                next.permits |= 1 << job;
            }
        }
        Some(next)
    }

    /// Statements in flight, deaths, handlers, and then claims by a process that has fewer jobs than are counted, or could take one.
    fn repair(&self, state: &State) -> Option<Action> {
        let processes = || 0..PROCESSES as u8;
        let each = || processes().flat_map(|process| (0..IN_FLIGHT as u8).map(move |n| (process, n)));
        let jobs = || 0..self.jobs;
        let possible = |action: &Action| self.step(state, *action).is_some();
        let running = |at: &Process| at.hand.iter().flatten().count();
        let wants = |process: u8| {
            let at = state.processes[index(process)];
            let counted = state.usage[index(at.node)].map_or(0, |(n, _)| usize::from(n));
            let others: u8 = (0..)
                .zip(&state.usage)
                .filter(|(node, _)| *node != at.node)
                .filter_map(|(_, usage)| *usage)
                .map(|(n, _)| n)
                .sum();
            let counts = state.change == Change::None;
            let startable = |(job, row): (usize, &Option<Row>)| {
                *row == Some(Row::Waiting) && (counts || state.permits >> job & 1 == 1)
            };
            let could = state.rows.iter().enumerate().any(startable)
                && running(&at) < IN_FLIGHT
                && (!counts || running(&at) as u8 + others < self.limit);
            let told = counts && self.rules.ends_are_told && counted > running(&at);
            at.asks.iter().all(Option::is_none) && (told || could)
        };
        let under_way =
            each().flat_map(|(process, ask)| [Action::Run { process, ask }, Action::Answer { process, ask }]);
        let late = processes().map(|process| Action::RunLate { process, finds: true });
        let registers = processes().map(|process| Action::Register { process });
        let deaths = state.nodes.all().map(|node| Action::Declare { node });
        let decided = jobs().map(|job| Action::Decide { job, done: true });
        let released = jobs().map(|job| Action::Release { job });
        let freed = state.nodes.all().map(|node| Action::Free { node });
        let looks = processes().map(|process| Action::Look { process });
        let handlers =
            each().flat_map(|(process, hand)| [Action::Succeed { process, hand }, Action::Told { process, hand }]);
        let admitted = jobs().map(|job| Action::Admit { job });
        let claims = processes().filter(|process| wants(*process)).map(|process| Action::Ask { process });
        under_way
            .chain(late)
            .chain(registers)
            .chain(deaths)
            .chain(decided)
            .chain(released)
            .chain(freed)
            .chain(looks)
            .chain(handlers)
            .chain(std::iter::once(Action::FinishChange))
            .chain(admitted)
            .chain(claims)
            .find(possible)
    }
}

impl Counted {
    /// Counts, takes the jobs that may start, and writes how many run then. Returns the jobs taken, one bit each.
    fn count(&self, next: &mut State, node: u8, asked: Ask, finds: bool) -> u8 {
        let usage = next.usage[index(node)];
        let is_late = usage.is_some_and(|(_, version)| version > asked.claim);
        if next.nodes.is_dead(node) || is_late && self.rules.late_claims_are_told {
            return 0;
        }
        let counts = next.change == Change::None;
        let others: u8 = (0..)
            .zip(&next.usage)
            .filter(|(other, _)| *other != node)
            .filter_map(|(_, usage)| *usage)
            .map(|(n, _)| n)
            .sum();
        let room = IN_FLIGHT as u8 - asked.mine;
        // Once admission passes count, a claim takes what they admitted.
        let free = if counts { self.limit.saturating_sub(asked.mine + others).min(room) } else { room };
        let admitted = next.permits;
        let mut took = 0;
        let mut taken = 0;
        for (job, row) in (0..).zip(&mut next.rows) {
            let may_start = counts || admitted >> job & 1 == 1;
            if finds && taken < free && may_start && *row == Some(Row::Waiting) {
                *row = Some(Row::Owned { node, claim: asked.claim, committing: false });
                took |= 1 << job;
                taken += 1;
            }
        }
        // A claim that takes nothing, and finds its number of running jobs already stored, writes nothing, not even its own number.
        let known = usage.is_some_and(|(n, _)| n == asked.mine + taken);
        if counts && (!known || taken > 0 && self.rules.each_start_is_written) {
            next.usage[index(node)] = Some((asked.mine + taken, asked.claim));
        }
        took
    }
}
