//! Time: leases, late heartbeats, monitors, clocks that jump, and rows that a silent process keeps locked.
//!
//! Time passes in ticks, for all processes at once, because monotonic clocks run alike; a tenth of a lease allows for the difference. A tick can't
//! pass while a running process has something due. A frozen process does nothing, and does what is due first when it continues. Wall clocks jump, but
//! only a twin reads them.

mod cases;
mod step;

use std::fmt;

use crate::vocabulary::{Promise, Rules, Subject, index, process_name};

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

/// Faults so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Processes that crashed or froze.
    pub silences: u8,
    /// Jumps of the server's wall clock.
    pub jumps: u8,
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

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the words of each stand below")]
pub enum Action {
    Tick,
    Send { process: u8 },
    Arrive { process: u8 },
    Answer { process: u8 },
    Lose { process: u8 },
    Stop { process: u8 },
    Retire { process: u8 },
    Look { process: u8 },
    Declare { process: u8, node: u8 },
    Lock { process: u8 },
    Unlock { process: u8 },
    Freeze { process: u8 },
    Thaw { process: u8 },
    Crash { process: u8 },
    JumpAhead,
    JumpBack,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p = process_name;
        match *self {
            Self::Tick => write!(f, "a quarter of a lease passes"),
            Self::Send { process } => write!(f, "{} sends a heartbeat", p(process)),
            Self::Arrive { process } => write!(f, "the server gets {}'s heartbeat", p(process)),
            Self::Answer { process } => write!(f, "{} hears the answer to its heartbeat", p(process)),
            Self::Lose { process } => write!(f, "{}'s heartbeat, or its answer, gets lost", p(process)),
            Self::Stop { process } => write!(f, "{} stops its handlers, because its lease is nearly over", p(process)),
            Self::Retire { process } => write!(f, "{} retires its own node", p(process)),
            Self::Look { process } => write!(f, "{} looks at the heartbeats of the others", p(process)),
            Self::Declare { process, node } => write!(f, "{} declares {} dead", p(process), p(node)),
            Self::Lock { process } => write!(f, "a statement of {} locks its node", p(process)),
            Self::Unlock { process } => write!(f, "the transaction of {} that locks its node ends", p(process)),
            Self::Freeze { process } => write!(f, "{} freezes", p(process)),
            Self::Thaw { process } => write!(f, "{} goes on", p(process)),
            Self::Crash { process } => write!(f, "{} crashes", p(process)),
            Self::JumpAhead => write!(f, "the server's clock steps ahead by an hour"),
            Self::JumpBack => write!(f, "the server's clock is set right again"),
        }
    }
}

impl Clocks {
    /// Ticks after which a node must have stopped its handlers, from the time it counts from.
    pub(crate) fn limit(&self) -> u8 {
        if self.rules.nodes_stop_early { LEASE - 1 } else { LEASE }
    }
}

impl Subject for Clocks {
    type State = State;
    type Action = Action;

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

    fn alphabet(&self) -> Vec<Action> {
        let mut all = vec![Action::Tick];
        if !self.rules.death_is_observed {
            all.extend([Action::JumpAhead, Action::JumpBack]);
        }
        for process in 0..self.processes {
            all.extend([
                Action::Send { process },
                Action::Arrive { process },
                Action::Answer { process },
                Action::Lose { process },
                Action::Stop { process },
                Action::Retire { process },
                Action::Look { process },
                Action::Freeze { process },
                Action::Thaw { process },
                Action::Crash { process },
            ]);
            if self.locks {
                all.extend([Action::Lock { process }, Action::Unlock { process }]);
            }
            all.extend((0..self.processes).map(|node| Action::Declare { process, node }));
        }
        all
    }

    fn step(&self, state: &State, action: Action) -> Option<State> {
        self.follow(state, action)
    }

    fn within_bounds(&self, state: &State, action: Action) -> bool {
        match action {
            Action::Freeze { .. } | Action::Crash { .. } => state.faults.silences < self.faults.silences,
            Action::JumpAhead => state.faults.jumps < self.faults.jumps,
            _ => true,
        }
    }

    fn watches(&self, promise: Promise) -> bool {
        self.only.is_none_or(|only| only == promise)
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        state.broken
    }

    fn repair(&self, state: &State) -> Option<Action> {
        self.next_repair(state)
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
        (0..).zip([stopped, crashed, frozen, late, beside, stale]).map(|(n, is)| u32::from(is) << n).sum()
    }
}
