//! Leases of an exclusive group: who ends a job of it takes the next ones from behind the gate, and the group's slot stays with the node meanwhile.
//!
//! A process runs what it took at the gate one after the other, in a line. It is not trusted to hold back anything else: what it claimed as an
//! admitted job starts at once, whatever else runs.
//!
//! A handler can commit its own transaction together with the removal of its row. While that is under way, and may succeed, it counts as one that
//! runs: what it wrote appears later.

mod action;
mod cases;
mod statements;
mod step;

use crate::vocabulary::{Promise, Rules, Subject, slot};

pub use action::Action;
pub use cases::cases;

/// Jobs of the group.
pub const JOBS: usize = 3;
/// Processes; each runs one node at a time.
pub const PROCESSES: usize = 2;
/// What one process can have in hand.
pub const HANDS: usize = 4;
/// How many a hand-on takes at most.
pub const LINE: u8 = 2;
/// How often one id can be sent.
pub const SENDS: u8 = 2;
/// Attempts of a job.
pub const ATTEMPTS: u8 = 2;

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// It waits at its gate.
    Blocked,
    /// It has the group's slot in its own name and waits for a node.
    Admitted,
    /// Owned: node and number of the claim.
    Owned {
        /// The node.
        node: u8,
        /// The number of the claim.
        claim: u8,
        /// It was claimed at its gate, under the node's lease. Otherwise it was admitted before.
        gated: bool,
    },
}

/// A job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// Where it is.
    pub place: Place,
    /// `attempt`.
    pub attempt: u8,
    /// Ghost: attempts that failed, or whose node died.
    pub spent: u8,
}

/// Who has the group's one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Slot {
    /// Nobody.
    #[default]
    Nobody,
    /// A job that was admitted.
    Job(u8),
    /// An ending: the handler of such a job, which was cancelled while it ran.
    Left {
        /// The node that runs it.
        node: u8,
        /// The number of its claim.
        claim: u8,
    },
    /// A node.
    Lease {
        /// The node.
        node: u8,
        /// The number of the claim, or of the commit, that made the lease.
        number: u8,
    },
}

/// How far a process is with what it has in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It has not started.
    Waits,
    /// Its handler runs.
    Runs,
    /// Its handler succeeded, and that is not known to be recorded.
    Ended,
}

/// What a process has in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// The number of its claim.
    pub claim: u8,
    /// The job.
    pub job: u8,
    /// It was claimed at its gate, so it stands in a line.
    pub gated: bool,
    /// How far it is.
    pub stage: Stage,
}

/// A process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its node; zero: it has none at the moment.
    pub node: u8,
    /// What it has in hand, in the order of claims.
    pub hand: [Option<Held>; HANDS],
    /// The lease that it knows, by its number.
    pub lease: Option<u8>,
    /// What became of a commit is not known, until a look has found its row gone, or has given it back.
    pub doubts: bool,
    /// It looks at slots, and noted for it what it knows.
    pub noted: Option<Noted>,
}

/// What a look at slots goes by: later claims may have made another lease meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Noted {
    /// The lease that was known.
    pub lease: Option<u8>,
    /// The last number of a claim.
    pub newest: u8,
}

/// What a hand-on is told, or a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Report {
    /// Whose.
    pub node: u8,
    /// What has ended: the job and the number of its claim.
    pub ended: [Option<(u8, u8)>; HANDS],
    /// The lease that it names.
    pub lease: Option<u8>,
    /// How many it takes at most.
    pub most: u8,
    /// The number of its own claim, or of the lease that it makes.
    pub number: u8,
    /// It is the commit of a handler's own transaction. Otherwise a hand-on.
    pub commits: bool,
}

/// Faults that happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Processes that ended without a word, or lost their node.
    pub deaths: u8,
    /// Answers that got lost.
    pub lost: u8,
    /// Statements that run long after their process gave them up.
    pub late: u8,
    /// Looks that go by what was noted a while ago.
    pub stale: u8,
}

/// Everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The jobs.
    pub rows: [Option<Row>; JOBS],
    /// The group's slot.
    pub slot: Slot,
    /// Something may be admitted: a round has to look.
    pub open: bool,
    /// The table `node`: those that are declared dead, one bit each.
    pub dead: u16,
    /// The processes.
    pub processes: [Process; PROCESSES],
    /// A statement that its process has given up, and that still runs.
    pub late: Option<Report>,
    /// Ghost: the last id of a node that was drawn.
    pub newest: u8,
    /// Ghost: the last number of a claim that was drawn.
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
    /// The one promise that is looked at; none: all.
    pub only: Option<Promise>,
}

impl Process {
    /// Everything in hand.
    pub fn held(&self) -> impl Iterator<Item = &Held> {
        self.hand.iter().flatten()
    }

    /// It has no job of a line any more that waits or runs.
    fn line_is_over(&self) -> bool {
        self.held().all(|held| !held.gated || held.stage == Stage::Ended)
    }
}

impl State {
    fn held(&self) -> impl Iterator<Item = (u8, &Held)> {
        self.processes.iter().flat_map(|process| process.held().map(|held| (process.node, held)))
    }

    /// Handlers that run at the moment, and the one whose transaction may yet commit what it did.
    fn at_work(&self) -> usize {
        let commits = |late: &Report| {
            late.commits
                && late.ended.iter().flatten().any(|(job, claim)| self.row_of(late.node, *job, *claim).is_some())
        };
        self.running().count() + self.late.iter().filter(|late| commits(late)).count()
    }

    /// Handlers that run at the moment.
    fn running(&self) -> impl Iterator<Item = (u8, &Held)> {
        self.held().filter(|(_, held)| held.stage == Stage::Runs)
    }

    fn is_dead(&self, node: u8) -> bool {
        self.dead >> node & 1 == 1
    }

    fn is_lived(&self, node: u8) -> bool {
        self.processes.iter().any(|process| process.node == node)
    }

    /// The row of this claim, unless it is gone or another's.
    fn row_of(&self, node: u8, job: u8, claim: u8) -> Option<Row> {
        let is = |place| matches!(place, Place::Owned { node: owner, claim: of, .. } if (owner, of) == (node, claim));
        self.rows[slot(job)].filter(|row| is(row.place))
    }
}

impl Subject for Leases {
    type State = State;
    type Action = Action;

    const NAME: &'static str = "leases";
    const SIGHTS: &'static [&'static str] = &[
        "a line of two under a lease",
        "a lease whose node is dead, while a row of its line is still owned",
        "a row of a dead node's line, while somebody else has the slot",
        "a handler of a line whose job was cancelled runs under the lease",
        "a lease of a living node that does not know it",
        "a handler of a job's first life beside the row of its second",
        "a statement under way whose node is dead",
    ];

    fn start(&self) -> State {
        let mut state = State { newest: PROCESSES as u8, ..State::default() };
        for (process, node) in state.processes.iter_mut().zip(1..) {
            process.node = node;
        }
        state
    }

    fn alphabet(&self) -> Vec<Action> {
        Action::all(self.jobs)
    }

    fn step(&self, state: &State, action: Action) -> Option<State> {
        self.follow(state, action)
    }

    fn within_bounds(&self, state: &State, action: Action) -> bool {
        let (faults, most) = (state.faults, self.faults);
        let number_is_left = state.claims < self.claims;
        let answers = |answered: bool| answered || faults.lost < most.lost;
        match action {
            // Jobs differ by nothing but their names, nor do processes: who comes first is called the first.
            Action::Send { job } => state.sent[slot(job)] < self.sends && (job == 0 || state.sent[slot(job) - 1] > 0),
            Action::Claim { process, answered, .. } => {
                number_is_left && answers(answered) && (process == 0 || state.claims > 0)
            }
            Action::HandOn { most, answered, .. } => (number_is_left || most == 0) && answers(answered),
            Action::Commit { answered, .. } => number_is_left && answers(answered),
            Action::GiveUp { .. } => number_is_left && faults.late < most.late,
            Action::Note { .. } => faults.stale < most.stale,
            // Who never claimed anything leaves nothing.
            Action::Fence { .. } | Action::Crash { .. } => faults.deaths < most.deaths && state.claims > 0,
            _ => true,
        }
    }

    fn watches(&self, promise: Promise) -> bool {
        self.only.is_none_or(|only| only == promise)
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        let miscounted = |row: &Row| {
            let taken = u8::from(matches!(row.place, Place::Owned { .. }));
            row.attempt != row.spent + taken || row.attempt > ATTEMPTS
        };
        [
            (Promise::LimitsHold, state.at_work() > 1),
            (Promise::OutcomesAreTheirOwn, state.usurped),
            (Promise::AttemptsAreCounted, state.rows.iter().flatten().any(miscounted)),
        ]
        .into_iter()
        .find_map(|(promise, broken)| (broken && self.watches(promise)).then_some(promise))
    }

    fn repair(&self, state: &State) -> Option<Action> {
        self.next_repair(state)
    }

    fn at_rest(&self, state: &State) -> bool {
        state.rows.iter().all(Option::is_none) && state.slot == Slot::Nobody
    }

    fn sights(&self, state: &State) -> u32 {
        let lease = match state.slot {
            Slot::Lease { node, number } => Some((node, number)),
            _ => None,
        };
        let leased = |node: u8| lease.is_some_and(|(of, _)| of == node);
        let line = |process: &Process| leased(process.node) && process.held().filter(|held| held.gated).count() > 1;
        let lost_lines = || {
            state.rows.iter().flatten().filter_map(|row| match row.place {
                Place::Owned { node, gated: true, .. } if state.is_dead(node) => Some(node),
                _ => None,
            })
        };
        let cancelled = |(node, held): (u8, &Held)| state.row_of(node, held.job, held.claim).is_none();
        let knows = |number| state.processes.iter().any(|process| process.lease == Some(number));
        [
            state.processes.iter().any(line),
            lost_lines().any(leased),
            lost_lines().any(|node| !leased(node) && state.slot != Slot::Nobody),
            state.running().any(|of| of.1.gated && leased(of.0) && cancelled(of)),
            lease.is_some_and(|(node, number)| state.is_lived(node) && !knows(number)),
            state.running().any(|of| cancelled(of) && state.rows[slot(of.1.job)].is_some()),
            state.late.is_some_and(|late| state.is_dead(late.node)),
        ]
        .into_iter()
        .zip(0..)
        .map(|(is, n)| u32::from(is) << n)
        .sum()
    }
}
