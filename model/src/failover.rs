//! Databases that forget: a failover to a standby that lags, a restored backup, and an old primary that goes on serving some connections.
//!
//! A database is a value; the standby, or the backup, is an earlier value of it. Connections are two for each process, that of its heart and
//! that of its work, and each leads to the present primary or to the old one.

mod action;
mod cases;
mod step;

use crate::vocabulary::{Promise, Rules, Subject, slot};

pub use action::Action;
pub use cases::cases;

/// Jobs with ids of their own.
pub const JOBS: usize = 2;
/// Processes; each runs one node at a time.
pub const PROCESSES: usize = 2;
/// Handlers of one process at the same time.
pub const HANDS: usize = 2;

/// A row of `job`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// `lock_owner`; zero for none.
    pub owner: u8,
    /// `version`.
    pub version: u8,
    /// Ghost: which claim it was; never twice the same.
    pub claim: u8,
    /// Ghost: the process that claimed it.
    pub by: u8,
}

/// What a server remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Database {
    /// The table `job`.
    pub rows: [Option<Row>; JOBS],
    /// The table `node`: those it knows, one bit each.
    pub known: u16,
    /// Those of them that are declared dead.
    pub dead: u16,
    /// The sequence from which ids of nodes would come.
    pub sequence: u8,
    /// Its timeline.
    pub timeline: u8,
}

/// A handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// Its job.
    pub job: u8,
    /// The node it was claimed for.
    pub node: u8,
    /// The number of its claim.
    pub version: u8,
    /// Ghost: which claim.
    pub claim: u8,
}

/// A process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its node; zero: it has none at the moment.
    pub node: u8,
    /// The timeline on which that was registered.
    pub timeline: u8,
    /// A node of its own that it has to retire; zero for none.
    pub former: u8,
    /// Its heart's connection leads to the old primary.
    pub heart_old: bool,
    /// Its other connections do.
    pub work_old: bool,
    /// Its handlers.
    pub hand: [Option<Held>; HANDS],
}

/// Faults that happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Failovers and restores.
    pub forgets: u8,
    /// Processes that ended without a word.
    pub crashes: u8,
    /// Nodes declared dead though they lived.
    pub deaths: u8,
    /// Connections that changed their server.
    pub moves: u8,
}

/// Everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The present primary.
    pub primary: Database,
    /// The former one, if it still serves.
    pub old: Option<Database>,
    /// The standby, or the backup: the primary at an earlier moment.
    pub standby: Database,
    /// The processes.
    pub processes: [Process; PROCESSES],
    /// Ghost: the last id of a node that was drawn.
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
    /// Nodes that are registered after the first ones.
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
    /// The one promise that is looked at; none: all.
    pub only: Option<Promise>,
}

impl Database {
    /// Whether it knows this node and has not declared it dead.
    pub fn is_alive(&self, node: u8) -> bool {
        self.known >> node & 1 == 1 && self.dead >> node & 1 == 0
    }
}

impl State {
    /// The server that this connection leads to.
    fn server(&mut self, old: bool) -> Option<&mut Database> {
        if old { self.old.as_mut() } else { Some(&mut self.primary) }
    }

    /// Whether a heart beats for this node on the present primary.
    fn is_lived(&self, node: u8) -> bool {
        self.processes.iter().any(|process| process.node == node && !process.heart_old)
    }
}

impl Subject for Failover {
    type State = State;
    type Action = Action;

    const NAME: &'static str = "failover";
    const SIGHTS: &'static [&'static str] = &[
        "a handler of a claim that the primary has forgotten",
        "a node that the primary does not know",
        "two handlers of one job",
        "a heart and work on different servers",
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

    fn alphabet(&self) -> Vec<Action> {
        Action::all(self.bounds.jobs, self.bounds.processes)
    }

    fn step(&self, state: &State, action: Action) -> Option<State> {
        self.follow(state, action)
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

    fn watches(&self, promise: Promise) -> bool {
        self.only.is_none_or(|only| only == promise)
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        state.broken
    }

    fn repair(&self, state: &State) -> Option<Action> {
        self.next_repair(state)
    }

    fn at_rest(&self, state: &State) -> bool {
        state.primary.rows.iter().all(Option::is_none)
    }

    fn sights(&self, state: &State) -> u32 {
        let lives = || state.processes.iter().filter(|process| process.node != 0);
        let held = || state.processes.iter().flat_map(|process| process.hand.into_iter().flatten());
        let claim_of = |job: u8| state.primary.rows[slot(job)].map(|row| row.claim);
        let forgotten = held().any(|held| claim_of(held.job) == Some(0));
        let unknown = lives().any(|process| state.primary.known >> process.node & 1 == 0);
        let twice = held().any(|held_| held().any(|other| other.claim != held_.claim && other.job == held_.job));
        let split = lives().any(|process| process.heart_old != process.work_old);
        let back =
            state.primary.rows.iter().flatten().any(|row| row.claim != 0 && !held().any(|h| h.claim == row.claim));
        let alone = lives().any(|process| process.heart_old && process.work_old && process.hand[0].is_some());
        (0..).zip([forgotten, unknown, twice, split, back, alone]).map(|(n, is)| u32::from(is) << n).sum()
    }
}
