//! Time: leases, heartbeats that come late, monitors that look, clocks that jump, and rows that a silent process keeps locked.
//!
//! Time passes in ticks, for everybody at once, because monotonic clocks run alike; a tenth of a lease is allowed for what they don't.
//! A tick can't pass while a process that runs has something to do that is due. One that is frozen does nothing, and what it has to do
//! comes first when it goes on. Wall clocks jump, but only a twin reads them.

mod cases;
mod step;

use std::fmt;

use crate::vocabulary::{Promise, Rules, Subject, process_name, slot};

pub use cases::cases;

/// Processes: each is a node, and a monitor of the others.
pub const PROCESSES: usize = 3;
/// Ticks of a lease.
pub const LEASE: u8 = 4;
/// The longest gap between two looks that leaves an observation whole.
pub const GAP: u8 = LEASE / 2;

/// How a process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Health {
    /// Its handlers run.
    #[default]
    Up,
    /// Stopped by a signal, a hypervisor, or swapping: nothing happens in it.
    Frozen,
    /// It stopped its handlers because it could not renew its lease, or was declared dead. It goes on looking at others.
    Stopped,
    /// Crashed.
    Gone,
}

/// A heartbeat under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Beat {
    /// Ticks since it was sent.
    pub age: u8,
    /// The server has it.
    pub arrived: bool,
}

/// What a monitor knows of another node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Observation {
    /// Ticks since it first saw the present beat; none: it never looked.
    pub age: Option<u8>,
    /// The beat was raised since it looked.
    pub changed: bool,
}

/// What a lease looks like to the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// So many ticks are left.
    Ticks(u8),
    /// It ends in a future that is further away than anybody waits.
    Ages,
}

/// A process, and the row of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// How it is.
    pub health: Health,
    /// Ticks since the moment from which it counts its lease.
    pub since: u8,
    /// The heartbeat under way.
    pub beat: Option<Beat>,
    /// What it saw of the others.
    pub sees: [Observation; PROCESSES],
    /// Ticks since its last look.
    pub gap: u8,
    /// The node is declared dead.
    pub dead: bool,
    /// A claim or commit of this process locks the node's row.
    pub locked: bool,
    /// What is left of the lease by the server's clock. Only a twin looks at it.
    pub left: Left,
}

impl Default for Process {
    fn default() -> Self {
        Self {
            health: Health::Up,
            since: 0,
            beat: None,
            sees: Default::default(),
            gap: 0,
            dead: false,
            locked: false,
            left: Left::Ticks(LEASE),
        }
    }
}

/// Faults that happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Processes that crashed or froze.
    pub silences: u8,
    /// Steps of the server's wall clock.
    pub jumps: u8,
}

/// Everything.
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
    /// The one promise that is looked at; none: all.
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
            Self::Look { process } => write!(f, "{} looks at the beats of the others", p(process)),
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
    /// When a node must have stopped its handlers: ticks from the moment it counts from.
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
        "an observation older than a lease, and a beat that came in between",
    ];

    fn start(&self) -> State {
        let mut state = State::default();
        for process in &mut state.processes[slot(self.processes)..] {
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

    /// Whoever is silent, or stopped itself, is known to be dead; only a lock of its own delays that.
    fn at_rest(&self, state: &State) -> bool {
        state.processes.iter().all(|process| process.health == Health::Up || process.dead || process.locked)
    }

    fn sights(&self, state: &State) -> u32 {
        let any = |of: fn(&Process) -> bool| state.processes[..slot(self.processes)].iter().any(of);
        let stopped = any(|at| at.health == Health::Stopped && !at.dead);
        let crashed = any(|at| at.health == Health::Gone && at.dead);
        let frozen = any(|at| at.health == Health::Frozen && at.dead);
        let late = any(|at| at.beat.is_some_and(|beat| beat.arrived && beat.age >= 2));
        let beside = any(|at| at.dead) && any(|at| at.locked && !at.dead && at.health != Health::Up);
        let stale = any(|at| at.sees.iter().any(|seen| seen.changed && seen.age == Some(LEASE)));
        (0..).zip([stopped, crashed, frozen, late, beside, stale]).map(|(n, is)| u32::from(is) << n).sum()
    }
}
