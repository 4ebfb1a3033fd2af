//! Limits that claims count themselves: one row holds the number of jobs a node runs, and its claims write it.
//!
//! A statement that counts, takes and writes is one step, because other claims under the same limit wait for it.

mod cases;
mod step;

use crate::kernel::{Faults, Nodes, Ranges, bits, index};
use crate::vocabulary::{Promise, Rules, Subject};

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

/// The whole state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The jobs.
    pub rows: [Option<Row>; JOBS],
    /// The table `usage`: the number of jobs, and the number of the claim that wrote it.
    pub usage: [Option<(u8, u8)>; NODES],
    /// The table `node`.
    pub nodes: Nodes,
    /// The processes.
    pub processes: [Process; PROCESSES],
    /// How far the change of another rule is, after which admission passes admit all that is limited.
    pub change: Change,
    /// The table `permit`: the jobs that have one, one bit each. A waiting job that has one is admitted.
    pub permits: u8,
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

actions! {
    Send { job }: "{job} is sent";
    Cancel { job }: "{job} is cancelled";
    Release { job }: "{job}, whose owner is dead, is released";
    Admit { job }: "an admission pass admits {job}";
    Decide { job, done }: "the {} of {job}'s handler {}",
        if done { "commit" } else { "transaction" }, if done { "stands" } else { "is rolled back" };
    Ask { process }: "{process} sends a claim, with how many jobs it runs";
    Run { process, ask }: "claim {ask} of {process} counts, and takes";
    Answer { process, ask }: "{process} hears the answer to claim {ask}";
    GiveUp { process, ask }: "{process} gives claim {ask} up";
    RunLate { process, finds }: "the claim that {process} gave up counts, and {}",
        if finds { "takes" } else { "finds nothing" };
    Succeed { process, hand }: "{process}'s handler {hand} ends";
    Commit { process, hand }: "{process}'s handler {hand} sends its commit";
    Told { process, hand }: "{process}'s handler {hand} hears that its job is gone, and ends";
    Look { process }: "{process} gives back what it owns and does not know";
    Crash { process }: "{process} crashes";
    Register { process }: "{process} registers a new node";
    Declare { node }: "node {node} is declared dead";
    Free { node }: "what node {node} ran is counted no more";
    PutRule: "a rule is put under which admission passes count";
    FinishChange: "what runs gets permits";
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

    fn owns(&self, node: u8) -> bool {
        self.rows.iter().flatten().any(|row| matches!(row, Row::Owned { node: owner, .. } if *owner == node))
    }
}

impl Subject for Counted {
    const NAME: &'static str = "counted";
    const SIGHTS: &'static [&'static str] = &[
        "a claim that runs after a newer one of its node",
        "what a dead node ran counts while a commit of it is under way",
        "a node runs fewer jobs than are counted",
        "a handler whose job was cancelled",
    ];

    fn start(&self) -> State {
        let mut state = State { nodes: Nodes::first(PROCESSES as u8), ..State::default() };
        for (process, node) in state.processes.iter_mut().zip(1..) {
            process.node = node;
        }
        state
    }

    fn ranges(&self) -> Ranges {
        let (processes, hands, nodes) = (PROCESSES as u8, IN_FLIGHT as u8, 1..NODES as u8);
        Ranges { jobs: self.jobs, processes, hands, nodes, ..Ranges::default() }
    }

    fn only(&self) -> Option<Promise> {
        self.only
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

    fn broken(&self, state: &State) -> Option<Promise> {
        self.first_broken([(Promise::LimitsHold, state.running() > usize::from(self.limit))])
    }

    fn at_rest(&self, state: &State) -> bool {
        state.rows.iter().all(Option::is_none)
            && state.permits == 0
            && state.change != Change::Put
            && state.usage.iter().flatten().all(|(n, _)| *n == 0)
    }

    fn sights(&self, state: &State) -> u32 {
        let dead = (1..NODES as u8).any(|node| {
            state.nodes.is_dead(node)
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
        bits([state.was_late, dead, fewer, cancelled])
    }
}
