//! Exclusive groups and limits: permits, and running jobs that are cancelled.
//!
//! Nodes are declared dead only when their handlers have stopped, or their process is gone: `clocks` shows that this is so.

mod cases;
mod step;

use crate::kernel::{Faults, Nodes, Ranges, bits, index};
use crate::vocabulary::{Promise, Rules, Subject};

pub use cases::cases;

/// Jobs of the group.
pub const JOBS: usize = 3;
/// Processes; each runs one node at a time.
pub const PROCESSES: usize = 2;
/// Handlers of one process at the same time.
pub const IN_FLIGHT: usize = 3;
/// How often one id can be sent.
pub const SENDS: u8 = 2;
/// Attempts of a job.
pub const ATTEMPTS: u8 = 2;

/// The state of a job's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowState {
    /// `job`, with a `blocked_on`: it waits for a permit.
    Blocked,
    /// `job`: it has its permit and waits for a node.
    Admitted,
    /// `job`, owned: node and number of the claim.
    Owned {
        /// The node.
        node: u8,
        /// The number of the claim.
        claim: u8,
    },
}

/// A job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The state of its row.
    pub place: RowState,
    /// `attempt`.
    pub attempt: u8,
}

/// The permit of a cancelled job, which stays until its handler has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Left {
    /// The job.
    pub job: u8,
    /// The node that runs it.
    pub node: u8,
    /// The number of its claim.
    pub claim: u8,
}

/// A process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its node; zero for none.
    pub node: u8,
    /// Its handlers: the job and the number of its claim.
    pub hand: [Option<(u8, u8)>; IN_FLIGHT],
}

/// The whole state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The jobs.
    pub rows: [Option<Row>; JOBS],
    /// The table `permit`: jobs that hold one, one bit each.
    pub permits: u8,
    /// Permits whose row is gone.
    pub left: [Option<Left>; JOBS],
    /// The table `node`.
    pub nodes: Nodes,
    /// The processes.
    pub processes: [Process; PROCESSES],
    /// Ghost: the last claim number drawn.
    pub claims: u8,
    /// Ghost: how often each job was sent.
    pub sent: [u8; JOBS],
    /// Ghost: faults so far.
    pub faults: Faults,
}

/// The subject.
#[derive(Clone, Copy, Debug)]
pub struct Groups {
    /// Its rules.
    pub rules: Rules,
    /// Jobs of the group.
    pub jobs: u8,
    /// How many may run at the same time.
    pub limit: usize,
    /// Sends of one id.
    pub sends: u8,
    /// Claims.
    pub claims: u8,
    /// Faults of each kind.
    pub faults: Faults,
    /// The only promise that is checked; `None`: all.
    pub only: Option<Promise>,
}

actions! {
    Free: "slots that dead nodes left are freed";
    Send { job }: "{job} is sent";
    Admit { job }: "{job} is admitted";
    Cancel { job }: "{job} is cancelled";
    Release { job }: "{job}, whose owner is dead, is released";
    Claim { process, job, answered }: "{process} claims {job}{answered}";
    Succeed { process, hand }: "{process}'s handler {hand} ends and reports success";
    Fail { process, hand }: "{process}'s handler {hand} ends and reports a failure";
    Told { process, hand }: "{process}'s handler {hand} hears that its job is gone, ends, and the node says so";
    Look { process }: "{process} gives back what it owns and does not know";
    Fence { process }: "{process} stops its handlers, because its lease is nearly over";
    Crash { process }: "{process} crashes";
    Register { process }: "{process} registers a new node";
    Declare { node }: "node {node} is declared dead";
}

impl State {
    /// Running handlers.
    fn running(&self) -> usize {
        self.processes.iter().map(|process| process.hand.iter().flatten().count()).sum()
    }

    fn is_lived(&self, node: u8) -> bool {
        self.processes.iter().any(|process| process.node == node)
    }
}

impl Subject for Groups {
    const NAME: &'static str = "groups";
    const SIGHTS: &'static [&'static str] = &[
        "a handler whose job was cancelled holds the permit",
        "and the same id is sent again meanwhile",
        "a slot is left that no handler holds",
        "a handler of a job's first life beside one of its second",
    ];

    fn start(&self) -> State {
        let mut state = State { nodes: Nodes::first(PROCESSES as u8), ..State::default() };
        for (process, node) in state.processes.iter_mut().zip(1..) {
            process.node = node;
        }
        state
    }

    fn ranges(&self) -> Ranges {
        let processes = PROCESSES as u8;
        let (hands, nodes) = (IN_FLIGHT as u8, 1..processes + 5);
        Ranges { jobs: self.jobs, processes, hands, nodes, ..Ranges::default() }
    }

    fn only(&self) -> Option<Promise> {
        self.only
    }

    fn within_bounds(&self, state: &State, action: Action) -> bool {
        let (faults, most) = (state.faults, self.faults);
        match action {
            Action::Send { job } => state.sent[index(job)] < self.sends,
            Action::Claim { answered, .. } => state.claims < self.claims && (answered || faults.lost < most.lost),
            Action::Fence { .. } => faults.deaths < most.deaths,
            Action::Crash { .. } => faults.crashes < most.crashes,
            _ => true,
        }
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        self.first_broken([(Promise::LimitsHold, state.running() > self.limit)])
    }

    fn at_rest(&self, state: &State) -> bool {
        state.rows.iter().all(Option::is_none) && state.permits == 0 && state.left.iter().all(Option::is_none)
    }

    fn sights(&self, state: &State) -> u32 {
        let hands = || state.processes.iter().flat_map(|process| process.hand.into_iter().flatten());
        let left = || state.left.iter().flatten();
        let holds = |left: &Left| hands().any(|(_, claim)| claim == left.claim);
        let held = left().any(holds);
        let again = left().any(|left| holds(left) && state.rows[index(left.job)].is_some());
        let alone = left().any(|left| !holds(left));
        let twice = hands().any(|(job, claim)| hands().any(|(same, other)| same == job && other != claim));
        bits([held, again, alone, twice && self.limit > 1])
    }
}
