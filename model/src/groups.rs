//! Exclusive groups and limits: permits, and running jobs that are cancelled.
//!
//! Nodes are declared dead only when their handlers have stopped, or their process is gone: `clocks` shows that this is so.

mod cases;
mod step;

use std::fmt;

use crate::vocabulary::{Promise, Rules, Subject, index, job_name, process_name};

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
    /// `blocked_job`: it waits for a permit.
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

/// Faults so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Processes that crashed.
    pub crashes: u8,
    /// Nodes that stopped because they could not renew their lease.
    pub fences: u8,
    /// Answers to claims that got lost.
    pub lost: u8,
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
    /// The table `node`: the nodes that are declared dead, one bit each.
    pub dead: u16,
    /// The processes.
    pub processes: [Process; PROCESSES],
    /// Ghost: the last node id drawn.
    pub newest: u8,
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

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the words of each stand below")]
pub enum Action {
    Send { job: u8 },
    Admit { job: u8 },
    Claim { process: u8, job: u8, answered: bool },
    Succeed { process: u8, hand: u8 },
    Fail { process: u8, hand: u8 },
    Cancel { job: u8 },
    Told { process: u8, hand: u8 },
    Look { process: u8 },
    Fence { process: u8 },
    Crash { process: u8 },
    Register { process: u8 },
    Declare { node: u8 },
    Release { job: u8 },
    Free,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (p, j) = (process_name, job_name);
        match *self {
            Self::Send { job } => write!(f, "{} is sent", j(job)),
            Self::Admit { job } => write!(f, "{} is admitted", j(job)),
            Self::Claim { process, job, answered } => {
                write!(f, "{} claims {}{}", p(process), j(job), if answered { "" } else { "; the answer gets lost" })
            }
            Self::Succeed { process, hand } => {
                write!(f, "{}'s handler {} ends and reports success", p(process), hand + 1)
            }
            Self::Fail { process, hand } => {
                write!(f, "{}'s handler {} ends and reports a failure", p(process), hand + 1)
            }
            Self::Cancel { job } => write!(f, "{} is cancelled", j(job)),
            Self::Told { process, hand } => {
                write!(
                    f,
                    "{}'s handler {} hears that its job is gone, ends, and the node says so",
                    p(process),
                    hand + 1
                )
            }
            Self::Look { process } => write!(f, "{} gives back what it owns and does not know", p(process)),
            Self::Fence { process } => write!(f, "{} stops its handlers, because its lease is nearly over", p(process)),
            Self::Crash { process } => write!(f, "{} crashes", p(process)),
            Self::Register { process } => write!(f, "{} registers a new node", p(process)),
            Self::Declare { node } => write!(f, "node {node} is declared dead"),
            Self::Free => write!(f, "slots that dead nodes left are freed"),
            Self::Release { job } => write!(f, "{}, whose owner is dead, is released", j(job)),
        }
    }
}

impl State {
    /// Running handlers.
    fn running(&self) -> usize {
        self.processes.iter().map(|process| process.hand.iter().flatten().count()).sum()
    }

    fn is_dead(&self, node: u8) -> bool {
        self.dead >> node & 1 == 1
    }

    fn is_lived(&self, node: u8) -> bool {
        self.processes.iter().any(|process| process.node == node)
    }
}

impl Subject for Groups {
    type State = State;
    type Action = Action;

    const NAME: &'static str = "groups";
    const SIGHTS: &'static [&'static str] = &[
        "a handler whose job was cancelled holds the permit",
        "and the same id is sent again meanwhile",
        "a slot is left that no handler holds",
        "a handler of a job's first life beside one of its second",
    ];

    fn start(&self) -> State {
        let mut state = State { newest: PROCESSES as u8, ..State::default() };
        for (process, node) in state.processes.iter_mut().zip(1..) {
            process.node = node;
        }
        state
    }

    fn alphabet(&self) -> Vec<Action> {
        let mut all = vec![Action::Free];
        for job in 0..self.jobs {
            all.extend([Action::Send { job }, Action::Admit { job }, Action::Cancel { job }, Action::Release { job }]);
        }
        for process in 0..PROCESSES as u8 {
            for job in 0..self.jobs {
                all.extend([true, false].map(|answered| Action::Claim { process, job, answered }));
            }
            for hand in 0..IN_FLIGHT as u8 {
                all.extend([
                    Action::Succeed { process, hand },
                    Action::Fail { process, hand },
                    Action::Told { process, hand },
                ]);
            }
            all.extend([
                Action::Look { process },
                Action::Fence { process },
                Action::Crash { process },
                Action::Register { process },
            ]);
        }
        all.extend((1..=PROCESSES as u8 + 4).map(|node| Action::Declare { node }));
        all
    }

    fn step(&self, state: &State, action: Action) -> Option<State> {
        self.follow(state, action)
    }

    fn within_bounds(&self, state: &State, action: Action) -> bool {
        let (faults, most) = (state.faults, self.faults);
        match action {
            Action::Send { job } => state.sent[index(job)] < self.sends,
            Action::Claim { answered, .. } => state.claims < self.claims && (answered || faults.lost < most.lost),
            Action::Fence { .. } => faults.fences < most.fences,
            Action::Crash { .. } => faults.crashes < most.crashes,
            _ => true,
        }
    }

    fn watches(&self, promise: Promise) -> bool {
        self.only.is_none_or(|only| only == promise)
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        let over = self.watches(Promise::LimitsHold) && state.running() > self.limit;
        over.then_some(Promise::LimitsHold)
    }

    fn repair(&self, state: &State) -> Option<Action> {
        self.next_repair(state)
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
        (0..).zip([held, again, alone, twice && self.limit > 1]).map(|(n, is)| u32::from(is) << n).sum()
    }
}
