//! Leases of an exclusive group: the node that completes a job of it claims the next blocked ones, and meanwhile holds the group's permit by a lease.
//!
//! A process runs the jobs that it claimed while they were blocked one after the other, in a group run. It is not trusted to hold back anything else:
//! a job that it claimed after its admission starts at once, whatever else runs.
//!
//! A handler can commit its own transaction together with the removal of its row. While that commit is in flight and may succeed, the handler counts
//! as running: its writes appear later.

mod action;
mod cases;
mod statements;
mod step;

use crate::kernel::{Faults, Nodes, Ranges, bits, index};
use crate::vocabulary::{Promise, Rules, Subject};

pub use action::Action;
pub use cases::cases;

/// Jobs of the group.
pub const JOBS: usize = 3;
/// Processes; each runs one node at a time.
pub const PROCESSES: usize = 2;
/// The jobs that one process can have in flight.
pub const IN_FLIGHT: usize = 4;
/// How many jobs one group claim takes at most.
pub const MAX_GROUP_CLAIM: u8 = 2;
/// How often one id can be sent.
pub const SENDS: u8 = 2;
/// Attempts of a job.
pub const ATTEMPTS: u8 = 2;

/// The state of a job's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowState {
    /// It is blocked on its key.
    Blocked,
    /// It holds the group's permit itself and waits for a node.
    Admitted,
    /// Owned: node and number of the claim.
    Owned {
        /// The node.
        node: u8,
        /// The number of the claim.
        claim: u8,
        /// It was claimed while blocked on its key, under the node's lease. Otherwise it was admitted before.
        in_group_run: bool,
    },
}

/// A job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The state of its row.
    pub place: RowState,
    /// `attempt`.
    pub attempt: u8,
    /// Ghost: attempts that failed, or whose node died.
    pub spent: u8,
}

/// The holder of the group's only permit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PermitHolder {
    /// Nobody.
    #[default]
    Nobody,
    /// An admitted job.
    Job(u8),
    /// A terminating handler: its job was admitted, and cancelled while it ran.
    Left {
        /// The node that runs it.
        node: u8,
        /// The number of its claim.
        claim: u8,
    },
    /// A node, by a lease.
    Lease {
        /// The node.
        node: u8,
        /// The number of the claim, or of the commit, that made the lease.
        number: u8,
    },
}

/// The stage of a job in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It has not started.
    Waits,
    /// Its handler runs.
    Runs,
    /// Its handler succeeded, and the outcome is not known to be recorded.
    Ended,
}

/// A job in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// The number of its claim.
    pub claim: u8,
    /// The job.
    pub job: u8,
    /// It was claimed while blocked on its key, so it is part of a group run.
    pub in_group_run: bool,
    /// Its stage.
    pub stage: Stage,
}

/// A process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its node; zero for none.
    pub node: u8,
    /// Its jobs in flight, in the order of claims.
    pub hand: [Option<Held>; IN_FLIGHT],
    /// The number of the lease that it knows.
    pub lease: Option<u8>,
    /// The result of a commit is unknown, until a check finds its row gone, or gives it back.
    pub doubts: bool,
    /// It checks permits, and noted for that what it knows.
    pub noted: Option<Noted>,
}

/// What a check of permits is based on: later claims may have made another lease meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Noted {
    /// The lease that was known.
    pub lease: Option<u8>,
    /// The last claim number.
    pub newest: u8,
}

/// The parameters of a group claim, or of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Report {
    /// The node.
    pub node: u8,
    /// The jobs that have ended, with the numbers of their claims.
    pub ended: [Option<(u8, u8)>; IN_FLIGHT],
    /// The lease that it names.
    pub lease: Option<u8>,
    /// How many it takes at most.
    pub most: u8,
    /// The number of its own claim, or of the lease that it makes.
    pub number: u8,
    /// It is the commit of a handler's own transaction. Otherwise it is a group claim.
    pub commits: bool,
}

/// The whole state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The jobs.
    pub rows: [Option<Row>; JOBS],
    /// The group's permit.
    pub permit: PermitHolder,
    /// A job may be admitted: an admission pass is due.
    pub open: bool,
    /// The table `node`.
    pub nodes: Nodes,
    /// The processes.
    pub processes: [Process; PROCESSES],
    /// A statement that its process has given up, and that still runs.
    pub late: Option<Report>,
    /// Ghost: the last claim number drawn.
    pub claims: u8,
    /// Ghost: how often each job was sent.
    pub sent: [u8; JOBS],
    /// Ghost: an outcome was accepted for another claim than its own.
    pub usurped: bool,
    /// Ghost: faults so far.
    pub faults: Faults,
}

/// The subject.
#[derive(Clone, Copy, Debug)]
pub struct Leases {
    /// Its rules.
    pub rules: Rules,
    /// Jobs of the group.
    pub jobs: u8,
    /// Sends of one id.
    pub sends: u8,
    /// Claims, and commits that make a lease.
    pub claims: u8,
    /// Faults of each kind.
    pub faults: Faults,
    /// The only promise that is checked; `None`: all.
    pub only: Option<Promise>,
}

impl Process {
    /// Returns all jobs in flight.
    pub fn held(&self) -> impl Iterator<Item = &Held> {
        self.hand.iter().flatten()
    }

    /// Whether no job of the group run waits or runs any more.
    fn line_is_over(&self) -> bool {
        self.held().all(|held| !held.in_group_run || held.stage == Stage::Ended)
    }
}

impl State {
    fn held(&self) -> impl Iterator<Item = (u8, &Held)> {
        self.processes.iter().flat_map(|process| process.held().map(|held| (process.node, held)))
    }

    /// Counts running handlers, and the one whose transaction may still commit its work.
    fn at_work(&self) -> usize {
        let commits = |late: &Report| {
            late.commits
                && late.ended.iter().flatten().any(|(job, claim)| self.row_of(late.node, *job, *claim).is_some())
        };
        self.running().count() + self.late.iter().filter(|late| commits(late)).count()
    }

    /// Returns the running handlers.
    fn running(&self) -> impl Iterator<Item = (u8, &Held)> {
        self.held().filter(|(_, held)| held.stage == Stage::Runs)
    }

    fn is_lived(&self, node: u8) -> bool {
        self.processes.iter().any(|process| process.node == node)
    }

    /// Returns the row of this claim, unless it is gone or another claim's.
    fn row_of(&self, node: u8, job: u8, claim: u8) -> Option<Row> {
        let is =
            |place| matches!(place, RowState::Owned { node: owner, claim: of, .. } if (owner, of) == (node, claim));
        self.rows[index(job)].filter(|row| is(row.place))
    }
}

impl Subject for Leases {
    const NAME: &'static str = "leases";
    const SIGHTS: &'static [&'static str] = &[
        "a line of two under a lease",
        "a lease whose node is dead, while a row of its line is still owned",
        "a row of a dead node's line, while somebody else has the permit",
        "a handler of a line whose job was cancelled runs under the lease",
        "a lease of a living node that does not know it",
        "a handler of a job's first life beside the row of its second",
        "a statement under way whose node is dead",
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
        let (hands, nodes) = (IN_FLIGHT as u8, 1..processes + 4);
        Ranges { jobs: self.jobs, processes, hands, nodes, most: MAX_GROUP_CLAIM, ..Ranges::default() }
    }

    fn only(&self) -> Option<Promise> {
        self.only
    }

    fn within_bounds(&self, state: &State, action: Action) -> bool {
        let (faults, most) = (state.faults, self.faults);
        let number_is_left = state.claims < self.claims;
        let answers = |answered: bool| answered || faults.lost < most.lost;
        match action {
            // Jobs differ only by name, and so do processes: the first to act is called the first.
            Action::Send { job } => state.sent[index(job)] < self.sends && (job == 0 || state.sent[index(job) - 1] > 0),
            Action::Claim { process, answered, .. } => {
                number_is_left && answers(answered) && (process == 0 || state.claims > 0)
            }
            Action::ClaimNext { most, answered, .. } => (number_is_left || most == 0) && answers(answered),
            Action::Commit { answered, .. } => number_is_left && answers(answered),
            Action::GiveUp { .. } => number_is_left && faults.late < most.late,
            Action::Note { .. } => faults.stale < most.stale,
            // A process that never claimed anything leaves nothing.
            Action::Fence { .. } | Action::Crash { .. } => faults.deaths < most.deaths && state.claims > 0,
            _ => true,
        }
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        let miscounted = |row: &Row| {
            let taken = u8::from(matches!(row.place, RowState::Owned { .. }));
            row.attempt != row.spent + taken || row.attempt > ATTEMPTS
        };
        self.first_broken([
            (Promise::LimitsHold, state.at_work() > 1),
            (Promise::OutcomesAreTheirOwn, state.usurped),
            (Promise::AttemptsAreCounted, state.rows.iter().flatten().any(miscounted)),
        ])
    }

    fn at_rest(&self, state: &State) -> bool {
        state.rows.iter().all(Option::is_none) && state.permit == PermitHolder::Nobody
    }

    fn sights(&self, state: &State) -> u32 {
        let lease = match state.permit {
            PermitHolder::Lease { node, number } => Some((node, number)),
            _ => None,
        };
        let leased = |node: u8| lease.is_some_and(|(of, _)| of == node);
        let line =
            |process: &Process| leased(process.node) && process.held().filter(|held| held.in_group_run).count() > 1;
        let lost_lines = || {
            state.rows.iter().flatten().filter_map(|row| match row.place {
                RowState::Owned { node, in_group_run: true, .. } if state.nodes.is_dead(node) => Some(node),
                _ => None,
            })
        };
        let cancelled = |(node, held): (u8, &Held)| state.row_of(node, held.job, held.claim).is_none();
        let knows = |number| state.processes.iter().any(|process| process.lease == Some(number));
        bits([
            state.processes.iter().any(line),
            lost_lines().any(leased),
            lost_lines().any(|node| !leased(node) && state.permit != PermitHolder::Nobody),
            state.running().any(|of| of.1.in_group_run && leased(of.0) && cancelled(of)),
            lease.is_some_and(|(node, number)| state.is_lived(node) && !knows(number)),
            state.running().any(|of| cancelled(of) && state.rows[index(of.1.job)].is_some()),
            state.late.is_some_and(|late| state.nodes.is_dead(late.node)),
        ])
    }
}
