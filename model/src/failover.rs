//! Databases that lose commits: a failover to a standby that lags, a restored backup, and an old primary that still serves some connections.
//!
//! A database is a value; the standby, or the backup, is an earlier value of it. Each process has two connections, one for its heartbeat and one for
//! its work, and each leads to the present primary or to the old one.

mod action;
mod cases;
mod step;

use crate::kernel::{Faults, Ranges, bits, index};
use crate::vocabulary::{Promise, Rules, Subject};

pub use action::Action;
pub use cases::cases;

/// Jobs with distinct ids.
pub const JOBS: usize = 2;
/// Processes; each runs one node at a time.
pub const PROCESSES: usize = 2;
/// Handlers of one process at the same time.
pub const IN_FLIGHT: usize = 2;
/// Node ids that explorations reach.
const NODES: u8 = 8;

/// A row of `job`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// `lock_owner`; zero for none.
    pub owner: u8,
    /// `version`.
    pub version: u8,
    /// Ghost: its claim; never twice the same.
    pub claim: u8,
    /// Ghost: the process that claimed it.
    pub by: u8,
}

/// The state of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Database {
    /// The table `job`.
    pub rows: [Option<Row>; JOBS],
    /// The table `node`: the nodes that it knows, one bit each.
    pub known: u16,
    /// The nodes that are declared dead.
    pub dead: u16,
    /// The sequence for node ids, which only a twin uses.
    pub sequence: u8,
    /// Its timeline.
    pub timeline: u8,
}

/// A running handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// Its job.
    pub job: u8,
    /// The node it was claimed for.
    pub node: u8,
    /// The number of its claim.
    pub version: u8,
    /// Ghost: the claim.
    pub claim: u8,
}

/// A process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its node; zero for none.
    pub node: u8,
    /// The timeline on which the node was registered.
    pub timeline: u8,
    /// Its former node, which it has to retire; zero for none.
    pub former: u8,
    /// Its heartbeat's connection leads to the old primary.
    pub heartbeat_old: bool,
    /// Its other connections lead to the old primary.
    pub work_old: bool,
    /// Its handlers.
    pub hand: [Option<Held>; IN_FLIGHT],
}

/// The whole state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The present primary.
    pub primary: Database,
    /// The former primary, if it still serves.
    pub old: Option<Database>,
    /// The standby, or the backup: an earlier state of the primary.
    pub standby: Database,
    /// The processes.
    pub processes: [Process; PROCESSES],
    /// Ghost: the last node id drawn.
    pub newest: u8,
    /// Ghost: the last claim.
    pub claims: u8,
    /// Ghost: jobs sent so far.
    pub sent: u8,
    /// Ghost: faults so far.
    pub faults: Faults,
    /// Ghost: the promise that the last step broke.
    pub broken: Option<Promise>,
}

/// How much is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Jobs.
    pub jobs: u8,
    /// Processes.
    pub processes: u8,
    /// Claims that take something.
    pub claims: u8,
    /// Nodes registered after the first ones.
    pub nodes: u8,
    /// Faults of each kind.
    pub faults: Faults,
}

/// The subject.
#[derive(Clone, Copy, Debug)]
pub struct Failover {
    /// Its rules.
    pub rules: Rules,
    /// Its bounds.
    pub bounds: Bounds,
    /// The only promise that is checked; `None`: all.
    pub only: Option<Promise>,
}

impl Database {
    /// Whether the server knows this node and has not declared it dead.
    pub fn is_alive(&self, node: u8) -> bool {
        self.known >> node & 1 == 1 && self.dead >> node & 1 == 0
    }
}

impl State {
    /// Returns the server that this connection leads to.
    fn server(&mut self, old: bool) -> Option<&mut Database> {
        if old { self.old.as_mut() } else { Some(&mut self.primary) }
    }

    /// Whether heartbeats for this node reach the present primary.
    fn is_lived(&self, node: u8) -> bool {
        self.processes.iter().any(|process| process.node == node && !process.heartbeat_old)
    }
}

impl Subject for Failover {
    const NAME: &'static str = "failover";
    const SIGHTS: &'static [&'static str] = &[
        "a handler of a claim that the primary has forgotten",
        "a node that the primary does not know",
        "two handlers of one job",
        "a heartbeat and work on different servers",
        "a claim came back whose handler had ended",
        "a process on the old primary alone",
    ];

    fn start(&self) -> State {
        let mut state = State { newest: self.bounds.processes, ..State::default() };
        for (process, node) in state.processes.iter_mut().zip(1..=self.bounds.processes) {
            process.node = node;
            state.primary.known |= 1 << node;
        }
        state.primary.sequence = self.bounds.processes;
        state.standby = state.primary;
        state
    }

    fn ranges(&self) -> Ranges {
        let Bounds { jobs, processes, .. } = self.bounds;
        Ranges { jobs, processes, hands: IN_FLIGHT as u8, nodes: 1..NODES + 1, ..Ranges::default() }
    }

    fn only(&self) -> Option<Promise> {
        self.only
    }

    fn within_bounds(&self, state: &State, action: Action) -> bool {
        let (faults, most) = (state.faults, self.bounds.faults);
        match action {
            Action::Send => state.sent < self.bounds.jobs,
            Action::Claim { .. } => state.claims < self.bounds.claims,
            Action::Failover { .. } | Action::Restore => faults.forgets < most.forgets,
            Action::Crash { .. } => faults.crashes < most.crashes,
            Action::Declare { node } => !state.is_lived(node) || faults.deaths < most.deaths,
            Action::Register { .. } => state.newest < self.bounds.processes + self.bounds.nodes,
            Action::Connect { .. } => faults.moves < most.moves,
            _ => true,
        }
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        state.broken
    }

    fn at_rest(&self, state: &State) -> bool {
        state.primary.rows.iter().all(Option::is_none)
    }

    fn sights(&self, state: &State) -> u32 {
        let lives = || state.processes.iter().filter(|process| process.node != 0);
        let held = || state.processes.iter().flat_map(|process| process.hand.into_iter().flatten());
        let claim_of = |job: u8| state.primary.rows[index(job)].map(|row| row.claim);
        let forgotten = held().any(|held| claim_of(held.job) == Some(0));
        let unknown = lives().any(|process| state.primary.known >> process.node & 1 == 0);
        let twice = held().any(|held_| held().any(|other| other.claim != held_.claim && other.job == held_.job));
        let split = lives().any(|process| process.heartbeat_old != process.work_old);
        let back =
            state.primary.rows.iter().flatten().any(|row| row.claim != 0 && !held().any(|h| h.claim == row.claim));
        let alone = lives().any(|process| process.heartbeat_old && process.work_old && process.hand[0].is_some());
        bits([forgotten, unknown, twice, split, back, alone])
    }
}
