//! The effect of each action in time.

use super::{Action, Clocks, GAP, Health, LEASE, Left, Observation, Process, Renewal, State};
use crate::kernel::index;
use crate::vocabulary::{Promise, Steps, Subject as _};

impl Steps for Clocks {
    type State = State;
    type Action = Action;

    #[expect(clippy::too_many_lines, reason = "one arm for each action")]
    fn step(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        next.broken = None;
        match action {
            Action::Tick => {
                let due = |at: &Process| at.health == Health::Up && at.since >= self.limit();
                if state.processes.iter().any(due) {
                    return None;
                }
                for process in &mut next.processes {
                    self.pass(process);
                }
            }
            Action::Send { process } => {
                let at = self.running(&mut next, process)?;
                if at.renewal.is_some() {
                    return None;
                }
                at.renewal = Some(Renewal { age: 0, arrived: false });
            }
            Action::Arrive { process } => {
                // heartbeat.sql raises the heartbeat, unless the node is dead. The sender may be frozen or gone by now.
                let at = &mut next.processes[index(process)];
                let renewal = at.renewal.filter(|renewal| !renewal.arrived)?;
                at.renewal = Some(Renewal { arrived: true, ..renewal });
                if !at.dead {
                    at.left = Left::Ticks(LEASE);
                    for other in &mut next.processes {
                        let seen = &mut other.sees[index(process)];
                        seen.changed = seen.age.is_some();
                    }
                }
            }
            Action::Answer { process } => {
                let at = self.running(&mut next, process)?;
                let renewal = at.renewal.take().filter(|renewal| renewal.arrived)?;
                if at.dead {
                    at.stop();
                } else {
                    at.since = if self.rules.leases_count_from_sending { at.since.min(renewal.age) } else { 0 };
                }
            }
            Action::Lose { process } => {
                next.processes[index(process)].renewal.take()?;
            }
            Action::Stop { process } => {
                let at = self.running(&mut next, process)?;
                if at.since < self.limit() {
                    return None;
                }
                at.stop();
            }
            Action::Retire { process } => {
                // retire_node.sql waits for claims in flight.
                let at = state.processes[index(process)];
                if at.health != Health::Stopped || at.dead || at.locked {
                    return None;
                }
                next.bury(process);
            }
            Action::Look { process } => {
                let at = looking(&mut next, process)?;
                let whole = at.gap <= GAP;
                for (node, seen) in at.sees.iter_mut().enumerate() {
                    if node != index(process) && node < index(self.processes) && !state.processes[node].dead {
                        let age = seen.age.filter(|_| whole && !seen.changed);
                        *seen = Observation { age: Some(age.unwrap_or(0)), changed: false };
                    }
                }
                at.gap = 0;
                if next == *state {
                    return None;
                }
            }
            Action::Declare { process, node } => self.declare(state, &mut next, process, node)?,
            Action::Lock { process } => {
                let at = self.running(&mut next, process)?;
                if at.locked || at.dead {
                    return None;
                }
                at.locked = true;
            }
            Action::Unlock { process } => {
                // By the process, or by the server, which bounds transactions whose client is silent.
                let at = &mut next.processes[index(process)];
                if !std::mem::take(&mut at.locked) {
                    return None;
                }
            }
            Action::Freeze { process } => {
                self.running(&mut next, process)?.health = Health::Frozen;
                next.faults.silences += 1;
            }
            Action::Thaw { process } => {
                let at = &mut next.processes[index(process)];
                if at.health != Health::Frozen {
                    return None;
                }
                at.health = Health::Up;
                // Timers that are due come first.
                if at.since >= self.limit() {
                    at.stop();
                }
            }
            Action::Crash { process } => {
                let at = self.running(&mut next, process)?;
                *at = Process {
                    health: Health::Gone,
                    renewal: at.renewal,
                    dead: at.dead,
                    locked: at.locked,
                    left: at.left,
                    ..Process::default()
                };
                next.faults.silences += 1;
            }
            Action::JumpAhead => {
                if state.ahead {
                    return None;
                }
                next.ahead = true;
                next.faults.jumps += 1;
                next.processes.iter_mut().for_each(|process| process.left = Left::Ticks(0));
            }
            Action::JumpBack => {
                if !state.ahead {
                    return None;
                }
                next.ahead = false;
                next.processes.iter_mut().filter(|process| !process.dead).for_each(|process| process.left = Left::Ages);
            }
        }
        Some(next)
    }

    /// All processes that can do what is due, and then time passes. Frozen ones stay frozen, and rows that silent ones locked stay locked.
    fn repair(&self, state: &State) -> Option<Action> {
        if self.at_rest(state) {
            return None;
        }
        let possible = |action: &Action| self.step(state, *action).is_some();
        let hearts = (0..self.processes).flat_map(|process| {
            let at = state.processes[index(process)];
            let stale = at.since > 0 || at.renewal.is_some();
            [Action::Arrive { process }, Action::Answer { process }, Action::Send { process }]
                .into_iter()
                .filter(move |_| stale && at.health == Health::Up)
        });
        let stops = (0..self.processes).flat_map(|process| [Action::Stop { process }, Action::Retire { process }]);
        let looks = (0..self.processes)
            .filter(|process| state.processes[index(*process)].gap > 0)
            .map(|process| Action::Look { process });
        let deaths = (0..self.processes)
            .flat_map(|process| (0..self.processes).map(move |node| Action::Declare { process, node }));
        hearts.chain(stops).chain(looks).chain(deaths).chain([Action::Tick]).find(possible)
    }
}

impl Clocks {
    /// Returns a process whose handlers run.
    fn running<'a>(&self, state: &'a mut State, process: u8) -> Option<&'a mut Process> {
        let at = &mut state.processes[index(process)];
        (process < self.processes && at.health == Health::Up).then_some(at)
    }

    /// Lets a tick pass for one process and its row.
    fn pass(&self, process: &mut Process) {
        let older = |age: u8| (age + 1).min(LEASE);
        if matches!(process.health, Health::Up | Health::Frozen) {
            process.since = older(process.since);
        }
        if process.health != Health::Gone {
            process.gap = (process.gap + 1).min(GAP + 1);
            for seen in &mut process.sees {
                seen.age = seen.age.map(older);
            }
        }
        process.renewal = process.renewal.map(|renewal| Renewal { age: older(renewal.age), ..renewal });
        match process.left {
            // It is not read, so it need not change.
            _ if self.rules.death_is_observed => {}
            Left::Ticks(ticks) => process.left = Left::Ticks(ticks.saturating_sub(1)),
            Left::Ages => {}
        }
    }

    /// `update … where heartbeat = <the heartbeat seen> and dead_at is null`, on rows that no other transaction has locked.
    fn declare(&self, state: &State, next: &mut State, process: u8, node: u8) -> Option<()> {
        let looker = *looking(next, process)?;
        let late = |node: usize| {
            let row = state.processes[node];
            let seen = looker.sees[node];
            let observed = looker.gap == 0 && seen.age == Some(LEASE) && !seen.changed && node != index(process);
            !row.dead && if self.rules.death_is_observed { observed } else { row.left == Left::Ticks(0) }
        };
        let waits = |node: usize| late(node) && state.processes[node].locked;
        let blocked = if self.rules.locked_nodes_are_passed_over {
            waits(index(node))
        } else {
            (0..index(self.processes)).any(waits)
        };
        if !late(index(node)) || blocked {
            return None;
        }
        next.bury(node);
        if state.processes[index(node)].health == Health::Up && self.watches(Promise::TheLivingAreLeftAlone) {
            next.broken = Some(Promise::TheLivingAreLeftAlone);
        }
        Some(())
    }
}

/// Returns a process that can monitor others.
fn looking(state: &mut State, process: u8) -> Option<&mut Process> {
    let at = &mut state.processes[index(process)];
    matches!(at.health, Health::Up | Health::Stopped).then_some(at)
}

impl State {
    /// Marks a node dead and removes all observations of it.
    fn bury(&mut self, node: u8) {
        self.processes[index(node)].dead = true;
        self.processes[index(node)].left = Left::Ticks(0);
        for other in &mut self.processes {
            other.sees[index(node)] = Observation::default();
        }
    }
}

impl Process {
    fn stop(&mut self) {
        self.health = Health::Stopped;
        self.since = 0;
    }
}
