//! The effect of each action on databases that lose commits.

use super::{Action, Database, Failover, Held, IN_FLIGHT, JOBS, Process, Row, State};
use crate::kernel::index;
use crate::vocabulary::{Promise, Steps, Subject as _};

const WAITING: Row = Row { owner: 0, version: 0, claim: 0, by: 0 };

impl Steps for Failover {
    type State = State;
    type Action = Action;

    #[expect(clippy::too_many_lines, reason = "one arm for each action")]
    fn step(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        next.broken = None;
        match action {
            Action::Send => {
                let row = next.primary.rows.get_mut(index(state.sent))?;
                *row = Some(WAITING);
                next.sent += 1;
            }
            Action::Claim { process, job } => self.claim(state, &mut next, process, job)?,
            Action::Finish { process, hand } => {
                let held = state.processes[index(process)].hand[index(hand)]?;
                let server = next.server(state.processes[index(process)].work_old)?;
                let row = server.rows[index(held.job)];
                // complete.sql: an outcome without its claim changes nothing.
                if let Some(row) = row.filter(|row| row.owner == held.node && row.version == held.version) {
                    server.rows[index(held.job)] = None;
                    if row.claim != held.claim {
                        self.note(&mut next, Promise::OutcomesAreTheirOwn);
                    }
                }
                next.processes[index(process)].hand[index(hand)] = None;
            }
            Action::Drop { process, hand } => {
                // It is stopped, because its node has ended.
                let at = &mut next.processes[index(process)];
                at.hand[index(hand)].filter(|held| held.node != at.node)?;
                at.hand[index(hand)] = None;
            }
            Action::Look { process } => {
                let looker = state.processes[index(process)];
                if looker.node == 0 || !self.rules.looks_now_and_then {
                    return None;
                }
                let knows = |job: u8, row: &Row| {
                    let this = |held: &Held| held.job == job && held.version == row.version && held.node == row.owner;
                    looker.hand.iter().flatten().any(this)
                };
                self.give_back(&mut next, process, looker.node, knows)?;
            }
            Action::Heartbeat { process } => {
                let at = state.processes[index(process)];
                let server = *next.server(at.heartbeat_old)?;
                let moved = self.rules.timelines_are_compared && server.timeline != at.timeline;
                if at.node == 0 || server.is_alive(at.node) && !moved {
                    return None;
                }
                next.processes[index(process)].end_node_session();
            }
            Action::Retire { process } => {
                let at = state.processes[index(process)];
                if at.former == 0 {
                    return None;
                }
                next.processes[index(process)].former = 0;
                let server = next.server(at.work_old)?;
                server.dead |= server.known & 1 << at.former;
                let _ = self.give_back(&mut next, process, at.former, |_, _| false);
            }
            Action::Register { process, heartbeat_old, work_old } => {
                if state.processes[index(process)].node != 0 || (heartbeat_old || work_old) && state.old.is_none() {
                    return None;
                }
                let drawn = state.newest + 1;
                let server = next.server(heartbeat_old)?;
                server.sequence += 1;
                let node = if self.rules.processes_draw_ids { drawn } else { server.sequence };
                server.known |= 1 << node;
                server.dead &= !(1 << node);
                let timeline = server.timeline;
                next.newest = drawn;
                let at = &mut next.processes[index(process)];
                *at = Process { node, timeline, heartbeat_old, work_old, ..*at };
            }
            Action::Crash { process } => {
                if state.processes[index(process)].node == 0 {
                    return None;
                }
                next.processes[index(process)] = Process::default();
                next.faults.crashes += 1;
            }
            Action::Declare { node } => {
                if !state.primary.is_alive(node) {
                    return None;
                }
                next.primary.dead |= 1 << node;
                next.faults.deaths += u8::from(state.is_lived(node));
            }
            Action::Release { job } => {
                let row = state.primary.rows[index(job)]?;
                if row.owner == 0 || state.primary.is_alive(row.owner) {
                    return None;
                }
                next.primary.rows[index(job)] = Some(self.freed(row));
            }
            Action::Replicate => {
                if state.standby == state.primary || state.old.is_some() {
                    return None;
                }
                next.standby = state.primary;
            }
            Action::Failover { old_serves } => {
                if state.old.is_some() {
                    return None;
                }
                next.old = old_serves.then_some(state.primary);
                next.primary = Database { timeline: state.primary.timeline + 1, ..state.standby };
                next.standby = next.primary;
                for process in next.processes.iter_mut().filter(|process| process.node != 0) {
                    (process.heartbeat_old, process.work_old) = (old_serves, old_serves);
                }
                next.faults.forgets += 1;
            }
            Action::Restore => {
                if state.old.is_some() || state.standby == state.primary {
                    return None;
                }
                next.primary = state.standby;
                next.faults.forgets += 1;
            }
            Action::Connect { process, heartbeat, old } => {
                let at = &mut next.processes[index(process)];
                let leads = if heartbeat { &mut at.heartbeat_old } else { &mut at.work_old };
                if at.node == 0 || *leads == old || old && state.old.is_none() {
                    return None;
                }
                *leads = old;
                next.faults.moves += 1;
            }
            Action::OldEnds => {
                state.old?;
                next.old = None;
                for process in &mut next.processes {
                    (process.heartbeat_old, process.work_old) = (false, false);
                }
            }
        }
        Some(next)
    }

    /// Heartbeats first, then deaths, checks of what is owned, handlers, claims. Connections stay where they are, because a working connection is
    /// never given up. Only when no process is split between two servers, and nothing else is left to do, does the old primary stop.
    fn repair(&self, state: &State) -> Option<Action> {
        let all = || (0..self.bounds.processes).map(|process| (process, &state.processes[index(process)]));
        let jobs = || (0..self.bounds.jobs).filter_map(|job| Some((job, state.primary.rows[index(job)]?)));
        let possible = |action: &Action| self.step(state, *action).is_some();
        let lives = all().flat_map(|(process, _)| {
            let register = Action::Register { process, heartbeat_old: false, work_old: false };
            [Action::Heartbeat { process }, Action::Retire { process }, register]
        });
        let unlived = (1..=state.newest).filter(|node| !state.is_lived(*node));
        let deaths = unlived.map(|node| Action::Declare { node });
        let released = jobs().map(|(job, _)| Action::Release { job });
        let looks = all().map(|(process, _)| Action::Look { process });
        let handlers = all()
            .flat_map(|(process, _)| (0..IN_FLIGHT as u8).map(move |hand| (process, hand)))
            .map(|(process, hand)| Action::Finish { process, hand });
        let waiting = jobs().filter(|(_, row)| row.owner == 0);
        let claims = waiting.flat_map(|(job, _)| {
            all()
                .filter(|(_, at)| !at.work_old || !at.heartbeat_old)
                .map(move |(process, _)| Action::Claim { process, job })
        });
        // Nodes poll also where nothing waits, and so notice that the server does not know them.
        let polls = all().filter(|(_, at)| at.node != 0).filter_map(|(process, at)| {
            let server = if at.work_old { state.old? } else { state.primary };
            (!server.is_alive(at.node)).then_some(Action::Claim { process, job: 0 })
        });
        let torn = all().any(|(_, at)| at.heartbeat_old != at.work_old);
        let end = (!torn).then_some(Action::OldEnds);
        lives
            .chain(deaths)
            .chain(released)
            .chain(looks)
            .chain(handlers)
            .chain(claims)
            .chain(polls)
            .chain(end)
            .find(possible)
    }
}

impl Failover {
    /// `claim`: takes a waiting row, if this server knows the node and has not declared it dead.
    fn claim(&self, state: &State, next: &mut State, process: u8, job: u8) -> Option<()> {
        let at = state.processes[index(process)];
        let free = at.hand.iter().position(Option::is_none)?;
        let claim = state.claims + 1;
        let server = next.server(at.work_old)?;
        if at.node == 0 {
            return None;
        }
        if !server.is_alive(at.node) {
            // Nothing is taken. A process that notices ends the node; one that does not goes on asking.
            if !self.rules.missing_nodes_are_noticed {
                return None;
            }
            next.processes[index(process)].end_node_session();
            return Some(());
        }
        let row = server.rows[index(job)].filter(|row| row.owner == 0)?;
        let version = if self.rules.claimers_draw_numbers { claim } else { row.version + 1 };
        server.rows[index(job)] = Some(Row { owner: at.node, version, claim, by: process });
        next.claims = claim;
        next.processes[index(process)].hand[free] = Some(Held { job, node: at.node, version, claim });
        Some(())
    }

    /// `release_unknown`, `retire_node`: rows of a node that its process does not have in flight wait again.
    fn give_back(&self, next: &mut State, process: u8, node: u8, knows: impl Fn(u8, &Row) -> bool) -> Option<()> {
        let processes = next.processes;
        let server = next.server(processes[index(process)].work_old)?;
        let (mut found, mut trespass) = (false, false);
        for job in 0..JOBS as u8 {
            let Some(row) = server.rows[index(job)].filter(|row| row.owner == node && !knows(job, row)) else {
                continue;
            };
            let other = processes[index(row.by)];
            trespass |=
                row.by != process && other.node == node && other.hand.iter().flatten().any(|h| h.claim == row.claim);
            server.rows[index(job)] = Some(self.freed(row));
            found = true;
        }
        if trespass {
            self.note(next, Promise::NobodyTrespasses);
        }
        found.then_some(())
    }

    fn freed(&self, row: Row) -> Row {
        let version = if self.rules.claimers_draw_numbers { 0 } else { row.version };
        Row { version, ..WAITING }
    }

    fn note(&self, state: &mut State, promise: Promise) {
        if self.watches(promise) {
            state.broken = Some(promise);
        }
    }
}

impl Process {
    /// Notifies the handlers to stop, gives up the connections, and leaves the node to be retired.
    fn end_node_session(&mut self) {
        self.former = std::mem::take(&mut self.node);
        (self.heartbeat_old, self.work_old) = (false, false);
    }
}
