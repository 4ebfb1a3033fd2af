//! Time: leases, late heartbeats, monitors, clocks that jump, and rows that a silent process keeps locked.
//!
//! Time passes in ticks, for all processes at once, because monotonic clocks run alike; a tenth of a lease allows for the difference. A tick can't
//! pass while a running process has something due. A frozen process does nothing, and does what is due first when it continues. Wall clocks jump, but
//! only a twin reads them.

mod cases;
mod step;

use crate::kernel::{Faults, Ranges, bits, index, process_name};
use crate::vocabulary::{Promise, Rules, Subject};

pub use cases::cases;

/// Processes: each is a node, and a monitor of the others.
pub const PROCESSES: usize = 3;
/// Ticks of a lease.
pub const LEASE: u8 = 4;
/// The longest gap between two checks that leaves an observation valid.
pub const GAP: u8 = LEASE / 2;

/// The condition of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Health {
    /// Its handlers run.
    #[default]
    Up,
    /// Stopped by a signal, a hypervisor, or swapping: nothing happens in it.
    Frozen,
    /// It stopped its handlers because it could not renew its lease, or was declared dead. It still monitors the others.
    Stopped,
    /// Crashed.
    Gone,
}

/// A heartbeat in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Renewal {
    /// Ticks since it was sent.
    pub age: u8,
    /// The server has received it.
    pub arrived: bool,
}

/// What a monitor knows of another node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Observation {
    /// Ticks since it first saw the present heartbeat; `None`: it never checked.
    pub age: Option<u8>,
    /// The heartbeat was raised since its last check.
    pub changed: bool,
}

/// The state of a lease by the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// Ticks that are left.
    Ticks(u8),
    /// It ends further in the future than anything waits.
    Ages,
}

/// A process, and the row of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its condition.
    pub health: Health,
    /// Ticks since the time from which it counts its lease.
    pub since: u8,
    /// The heartbeat in flight.
    pub renewal: Option<Renewal>,
    /// Its observations of the other nodes.
    pub sees: [Observation; PROCESSES],
    /// Ticks since its last check.
    pub gap: u8,
    /// The node is declared dead.
    pub dead: bool,
    /// A claim or commit of this process has locked the node's row.
    pub locked: bool,
    /// The state of the lease by the server's clock. Only a twin reads it.
    pub left: Left,
}

impl Default for Process {
    fn default() -> Self {
        Self {
            health: Health::Up,
            since: 0,
            renewal: None,
            sees: Default::default(),
            gap: 0,
            dead: false,
            locked: false,
            left: Left::Ticks(LEASE),
        }
    }
}

/// The whole state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The processes and their nodes.
    pub processes: [Process; PROCESSES],
    /// Ghost: faults so far.
    pub faults: Faults,
    /// The server's clock is ahead.
    pub ahead: bool,
    /// Ghost: the promise that the last step broke.
    pub broken: Option<Promise>,
}

/// The subject.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// Its rules.
    pub rules: Rules,
    /// Processes.
    pub processes: u8,
    /// Faults of each kind.
    pub faults: Faults,
    /// Rows can be locked.
    pub locks: bool,
    /// The only promise that is checked; `None`: all.
    pub only: Option<Promise>,
}

actions! {
    Tick: "a quarter of a lease passes";
    JumpAhead: "the server's clock steps ahead by an hour";
    JumpBack: "the server's clock is set right again";
    Send { process }: "{process} sends a heartbeat";
    Arrive { process }: "the server gets {process}'s heartbeat";
    Answer { process }: "{process} hears the answer to its heartbeat";
    Lose { process }: "{process}'s heartbeat, or its answer, gets lost";
    Stop { process }: "{process} stops its handlers, because its lease is nearly over";
    Retire { process }: "{process} retires its own node";
    Look { process }: "{process} looks at the heartbeats of the others";
    Freeze { process }: "{process} freezes";
    Thaw { process }: "{process} goes on";
    Crash { process }: "{process} crashes";
    Lock { process }: "a statement of {process} locks its node";
    Unlock { process }: "the transaction of {process} that locks its node ends";
    Declare { process, node }: "{process} declares {} dead", process_name(node);
}

impl Clocks {
    /// Ticks after which a node must have stopped its handlers, from the time it counts from.
    pub(crate) fn limit(&self) -> u8 {
        if self.rules.nodes_stop_early { LEASE - 1 } else { LEASE }
    }
}

impl Subject for Clocks {
    const NAME: &'static str = "clocks";
    const SIGHTS: &'static [&'static str] = &[
        "a node that stopped itself",
        "a node that crashed is declared dead",
        "a frozen node is declared dead",
        "a heartbeat is answered late",
        "a dead node beside a locked one",
        "an observation older than a lease, and a heartbeat that came in between",
    ];

    fn start(&self) -> State {
        let mut state = State::default();
        for process in &mut state.processes[index(self.processes)..] {
            *process = Process { health: Health::Gone, dead: true, ..Process::default() };
        }
        state
    }

    fn ranges(&self) -> Ranges {
        Ranges { processes: self.processes, nodes: 0..self.processes, ..Ranges::default() }
    }

    fn only(&self) -> Option<Promise> {
        self.only
    }

    fn within_bounds(&self, state: &State, action: Action) -> bool {
        match action {
            Action::Freeze { .. } | Action::Crash { .. } => state.faults.silences < self.faults.silences,
            Action::JumpAhead => !self.rules.death_is_observed && state.faults.jumps < self.faults.jumps,
            Action::JumpBack => !self.rules.death_is_observed,
            Action::Lock { .. } | Action::Unlock { .. } => self.locks,
            _ => true,
        }
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        state.broken
    }

    /// A node that is silent, or stopped itself, is known to be dead; only its own lock delays that.
    fn at_rest(&self, state: &State) -> bool {
        state.processes.iter().all(|process| process.health == Health::Up || process.dead || process.locked)
    }

    fn sights(&self, state: &State) -> u32 {
        let any = |of: fn(&Process) -> bool| state.processes[..index(self.processes)].iter().any(of);
        let stopped = any(|at| at.health == Health::Stopped && !at.dead);
        let crashed = any(|at| at.health == Health::Gone && at.dead);
        let frozen = any(|at| at.health == Health::Frozen && at.dead);
        let late = any(|at| at.renewal.is_some_and(|renewal| renewal.arrived && renewal.age >= 2));
        let beside = any(|at| at.dead) && any(|at| at.locked && !at.dead && at.health != Health::Up);
        let stale = any(|at| at.sees.iter().any(|seen| seen.changed && seen.age == Some(LEASE)));
        bits([stopped, crashed, frozen, late, beside, stale])
    }
}
