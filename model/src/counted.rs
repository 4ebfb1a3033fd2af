//! Limits that claims count themselves: one row holds the number of jobs a node runs, and its claims write it.
//!
//! A statement that counts, takes and writes is one step, because other claims under the same limit wait for it.

mod cases;
mod step;

use std::fmt;

use crate::vocabulary::{Promise, Rules, Subject, index, job_name, process_name};

pub use cases::cases;

/// Jobs under the limit.
pub const JOBS: usize = 3;
/// Processes; each runs one node at a time.
pub const PROCESSES: usize = 2;
/// Handlers of one process at the same time, and its claims in flight.
pub const IN_FLIGHT: usize = 2;
/// Node ids, from one on.
pub const NODES: usize = 5;

/// An existing job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Row {
    /// No node owns it.
    Waiting,
    /// Owned: node and number of the claim.
    Owned {
        /// The node.
        node: u8,
        /// The number of the claim.
        claim: u8,
        /// The commit of its handler's transaction is in flight, and no other transaction can lock the row.
        committing: bool,
    },
}

/// A claim in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// Its number.
    pub claim: u8,
    /// The number of jobs the node ran when it was sent.
    pub mine: u8,
    /// The jobs that it took, one bit each; `None`: it has not run.
    pub took: Option<u8>,
}

/// A process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its node; zero for none.
    pub node: u8,
    /// Its handlers: the job and the number of its claim.
    pub hand: [Option<(u8, u8)>; IN_FLIGHT],
    /// Its claims in flight.
    pub asks: [Option<Ask>; IN_FLIGHT],
    /// A claim that it has given up, with its node: the server may still run it.
    pub late: Option<(u8, Ask)>,
}

/// The stages of the change of another rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Change {
    /// Claims count.
    #[default]
    None,
    /// The rule is committed. Claims no longer count, and what they counted has no permits yet.
    Put,
    /// What ran has permits.
    Finished,
}

/// Faults so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Processes that crashed.
    pub crashes: u8,
    /// Claims that were given up, or whose answers got lost.
    pub lost: u8,
}

/// The whole state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The jobs.
    pub rows: [Option<Row>; JOBS],
    /// The table `usage`: the number of jobs, and the number of the claim that wrote it.
    pub usage: [Option<(u8, u8)>; NODES],
    /// The table `node`: the nodes that are declared dead, one bit each.
    pub dead: u8,
    /// The processes.
    pub processes: [Process; PROCESSES],
    /// How far the change of another rule is, after which admission passes admit all that is limited.
    pub change: Change,
    /// The table `permit`: the jobs that have one, one bit each. A waiting job that has one is admitted.
    pub permits: u8,
    /// Ghost: the last node id drawn.
    pub newest: u8,
    /// Ghost: the last claim number drawn.
    pub claims: u8,
    /// Ghost: jobs that were sent, one bit each.
    pub sent: u8,
    /// Ghost: a claim ran after a newer one of its node.
    pub was_late: bool,
    /// Ghost: faults so far.
    pub faults: Faults,
}

/// The subject.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// Its rules.
    pub rules: Rules,
    /// Jobs under the limit.
    pub jobs: u8,
    /// How many may run at the same time.
    pub limit: u8,
    /// Claims.
    pub claims: u8,
    /// Whether a rule changes.
    pub changes: bool,
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
    Ask { process: u8 },
    Run { process: u8, ask: u8 },
    Answer { process: u8, ask: u8 },
    GiveUp { process: u8, ask: u8 },
    RunLate { process: u8, finds: bool },
    Succeed { process: u8, hand: u8 },
    Commit { process: u8, hand: u8 },
    Decide { job: u8, done: bool },
    Cancel { job: u8 },
    Told { process: u8, hand: u8 },
    Look { process: u8 },
    Crash { process: u8 },
    Register { process: u8 },
    Declare { node: u8 },
    Release { job: u8 },
    Free { node: u8 },
    PutRule,
    FinishChange,
    Admit { job: u8 },
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (p, j) = (process_name, job_name);
        match *self {
            Self::Send { job } => write!(f, "{} is sent", j(job)),
            Self::Ask { process } => write!(f, "{} sends a claim, with how many jobs it runs", p(process)),
            Self::Run { process, ask } => write!(f, "claim {} of {} counts, and takes", ask + 1, p(process)),
            Self::Answer { process, ask } => write!(f, "{} hears the answer to claim {}", p(process), ask + 1),
            Self::GiveUp { process, ask } => write!(f, "{} gives claim {} up", p(process), ask + 1),
            Self::RunLate { process, finds: true } => {
                write!(f, "the claim that {} gave up counts, and takes", p(process))
            }
            Self::RunLate { process, finds: false } => {
                write!(f, "the claim that {} gave up counts, and finds nothing", p(process))
            }
            Self::Succeed { process, hand } => write!(f, "{}'s handler {} ends", p(process), hand + 1),
            Self::Commit { process, hand } => write!(f, "{}'s handler {} sends its commit", p(process), hand + 1),
            Self::Decide { job, done: true } => write!(f, "the commit of {}'s handler stands", j(job)),
            Self::Decide { job, done: false } => write!(f, "the transaction of {}'s handler is rolled back", j(job)),
            Self::Cancel { job } => write!(f, "{} is cancelled", j(job)),
            Self::Told { process, hand } => {
                write!(f, "{}'s handler {} hears that its job is gone, and ends", p(process), hand + 1)
            }
            Self::Look { process } => write!(f, "{} gives back what it owns and does not know", p(process)),
            Self::Crash { process } => write!(f, "{} crashes", p(process)),
            Self::Register { process } => write!(f, "{} registers a new node", p(process)),
            Self::Declare { node } => write!(f, "node {node} is declared dead"),
            Self::Release { job } => write!(f, "{}, whose owner is dead, is released", j(job)),
            Self::Free { node } => write!(f, "what node {node} ran is counted no more"),
            Self::PutRule => f.write_str("a rule is put under which admission passes count"),
            Self::FinishChange => f.write_str("what runs gets permits"),
            Self::Admit { job } => write!(f, "an admission pass admits {}", j(job)),
        }
    }
}

impl State {
    /// Running handlers; one whose commit is in flight counts as running.
    fn running(&self) -> usize {
        let hands: usize = self.processes.iter().map(|process| process.hand.iter().flatten().count()).sum();
        let known = |claim: u8, job: usize| {
            self.processes.iter().flat_map(|at| at.hand.iter().flatten()).any(|held| *held == (job as u8, claim))
        };
        let committing = self.rows.iter().enumerate().filter(
            |(job, row)| matches!(row, Some(Row::Owned { claim, committing: true, .. }) if !known(*claim, *job)),
        );
        hands + committing.count()
    }

    /// Whether this claim no longer has the row of this job.
    fn has_lost(&self, job: u8, claim: u8) -> bool {
        !matches!(self.rows[index(job)], Some(Row::Owned { claim: held, .. }) if held == claim)
    }

    /// Whether a handler runs whose job was cancelled.
    fn outlives_its_row(&self) -> bool {
        self.processes.iter().flat_map(|at| at.hand.iter().flatten()).any(|(job, claim)| self.has_lost(*job, *claim))
    }

    /// Whether a handler is about to run whose job was cancelled.
    fn will_outlive_its_row(&self) -> bool {
        let asks = self.processes.iter().flat_map(|at| at.asks.iter().flatten());
        asks.filter_map(|ask| Some((ask.claim, ask.took?)))
            .any(|(claim, took)| (0..JOBS as u8).any(|job| took >> job & 1 == 1 && self.has_lost(job, claim)))
    }

    fn is_dead(&self, node: u8) -> bool {
        self.dead >> node & 1 == 1
    }

    fn owns(&self, node: u8) -> bool {
        self.rows.iter().flatten().any(|row| matches!(row, Row::Owned { node: owner, .. } if *owner == node))
    }
}

impl Subject for Counted {
    type State = State;
    type Action = Action;

    const NAME: &'static str = "counted";
    const SIGHTS: &'static [&'static str] = &[
        "a claim that runs after a newer one of its node",
        "what a dead node ran counts while a commit of it is under way",
        "a node runs fewer jobs than are counted",
        "a handler whose job was cancelled",
    ];

    fn start(&self) -> State {
        let mut state = State { newest: PROCESSES as u8, ..State::default() };
        for (process, node) in state.processes.iter_mut().zip(1..) {
            process.node = node;
        }
        state
    }

    fn alphabet(&self) -> Vec<Action> {
        let mut all = Vec::new();
        for job in 0..self.jobs {
            all.extend([Action::Send { job }, Action::Cancel { job }, Action::Release { job }, Action::Admit { job }]);
            all.extend([true, false].map(|done| Action::Decide { job, done }));
        }
        for process in 0..PROCESSES as u8 {
            for n in 0..IN_FLIGHT as u8 {
                let (ask, hand) = (n, n);
                all.extend([
                    Action::Run { process, ask },
                    Action::Answer { process, ask },
                    Action::GiveUp { process, ask },
                    Action::Succeed { process, hand },
                    Action::Commit { process, hand },
                    Action::Told { process, hand },
                ]);
            }
            all.extend([
                Action::Ask { process },
                Action::RunLate { process, finds: true },
                Action::RunLate { process, finds: false },
                Action::Look { process },
                Action::Crash { process },
                Action::Register { process },
            ]);
        }
        all.extend((1..NODES as u8).flat_map(|node| [Action::Declare { node }, Action::Free { node }]));
        all.extend([Action::PutRule, Action::FinishChange]);
        all
    }

    fn step(&self, state: &State, action: Action) -> Option<State> {
        self.follow(state, action)
    }

    fn within_bounds(&self, state: &State, action: Action) -> bool {
        let (faults, most) = (state.faults, self.faults);
        match action {
            Action::Ask { .. } => state.claims < self.claims,
            Action::GiveUp { .. } => faults.lost < most.lost,
            Action::Crash { .. } => faults.crashes < most.crashes,
            Action::PutRule => self.changes,
            _ => true,
        }
    }

    fn watches(&self, promise: Promise) -> bool {
        self.only.is_none_or(|only| only == promise)
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        let over = self.watches(Promise::LimitsHold) && state.running() > usize::from(self.limit);
        over.then_some(Promise::LimitsHold)
    }

    fn repair(&self, state: &State) -> Option<Action> {
        self.next_repair(state)
    }

    fn at_rest(&self, state: &State) -> bool {
        state.rows.iter().all(Option::is_none)
            && state.permits == 0
            && state.change != Change::Put
            && state.usage.iter().flatten().all(|(n, _)| *n == 0)
    }

    fn sights(&self, state: &State) -> u32 {
        let dead = (1..NODES as u8).any(|node| {
            state.is_dead(node)
                && state.usage[index(node)].is_some_and(|(n, _)| n > 0)
                && state
                    .rows
                    .iter()
                    .flatten()
                    .any(|row| matches!(row, Row::Owned { node: owner, committing: true, .. } if *owner == node))
        });
        let fewer = state.processes.iter().any(|at| {
            let running = at.hand.iter().flatten().count();
            at.node > 0 && state.usage[index(at.node)].is_some_and(|(n, _)| usize::from(n) > running)
        });
        let cancelled = state.outlives_its_row();
        (0..).zip([state.was_late, dead, fewer, cancelled]).map(|(n, is)| u32::from(is) << n).sum()
    }
}
