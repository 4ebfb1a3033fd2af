//! Claims and their outcomes: lost answers, stragglers, deaths declared at any time, cancelled jobs sent again, preclaimed jobs.
//!
//! There is no time: a node can be declared dead whenever its row is not locked, and a process that is not chosen for a while is as good as frozen.
//! So these results do not depend on clocks, leases or speed. That live nodes are not declared dead is the subject of `clocks`.

mod action;
mod cases;
mod step;

use crate::kernel::{Faults, Nodes, Ranges, bits, index, is_lost, next_send};
use crate::vocabulary::{Promise, Rules, Subject};

pub use crate::kernel::Fate;
pub use action::Action;
pub use cases::cases;

/// Jobs with distinct ids.
pub const JOBS: usize = 2;
/// Processes; each runs one node at a time.
pub const PROCESSES: usize = 2;
/// Handlers of one process at the same time.
pub const IN_FLIGHT: usize = 2;
/// How often one id can be sent.
pub const SENDS: usize = 2;
/// Attempts of a job.
pub const ATTEMPTS: u8 = 2;
/// Node ids that explorations reach.
const NODES: u8 = 8;

/// A row of `job`. A row without an owner waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// `lock_owner`; zero for none.
    pub owner: u8,
    /// `version`: the number of the claim.
    pub version: u8,
    /// `attempt`.
    pub attempt: u8,
    /// Ghost: the send of this id that it comes from.
    pub send: u8,
    /// Ghost: its claim; never twice the same.
    pub claim: u8,
    /// Ghost: attempts that failed or died.
    pub spent: u8,
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
    /// Its stage.
    pub phase: Phase,
    /// Ghost: the send.
    pub send: u8,
    /// Ghost: the claim.
    pub claim: u8,
}

/// The stages of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It runs undisturbed.
    Running,
    /// It must stop, because its job or its node is gone.
    Told,
    /// It succeeded and reported it; the answer got lost.
    Succeeded,
    /// It failed and reported it; the answer got lost.
    Failed,
}

/// A statement that makes a row this node's, on its way to the server and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// The job.
    pub job: u8,
    /// It inserts the row as owned already, and a COMMIT is to follow.
    pub born: bool,
    /// The node.
    pub node: u8,
    /// The number drawn for it, which is also a ghost: never twice the same.
    pub claim: u8,
    /// The number that goes into the row.
    pub version: u8,
    /// Ghost: the send that the row comes from.
    pub send: u8,
    /// Its stage.
    pub progress: Progress,
    /// The process waits for its answer.
    pub awaited: bool,
}

/// The stages of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Progress {
    /// The server has not begun it.
    Sent,
    /// It has read and locked; other transactions don't see its changes yet.
    Open,
    /// Committed: the row is the node's.
    Took,
    /// There was no row to take.
    Nothing,
    /// The node is dead.
    Refused,
}

/// What a process noted for a check of what it owns. The check itself reads the rows later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// Claims with this number or a later one are left alone.
    pub before: u8,
    /// The claims in flight: job, node and number.
    pub known: [Option<(u8, u8, u8)>; IN_FLIGHT],
}

/// A process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its node; zero for none.
    pub node: u8,
    /// Its former node, which it has to retire; zero for none.
    pub former: u8,
    /// Its handlers.
    pub hand: [Option<Held>; IN_FLIGHT],
    /// The statement in flight.
    pub request: Option<Request>,
    /// The number drawn for a claim that is not sent yet; zero for none. As built there is no such time.
    pub drawn: u8,
    /// Checks of what it owns that are due after a lost answer.
    pub looks: u8,
    /// A check that is under way.
    pub noted: Option<Note>,
    /// The claim that it remembers as cancelled: job and number.
    pub gone: Option<(u8, u8)>,
}

/// The whole state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The table `job`.
    pub rows: [Option<Row>; JOBS],
    /// The table `node`.
    pub nodes: Nodes,
    /// The processes.
    pub processes: [Process; PROCESSES],
    /// Ghost: the last claim number drawn.
    pub claims: u8,
    /// Ghost: the state of each send.
    pub fates: [[Fate; SENDS]; JOBS],
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
    /// Sends of each.
    pub sends: u8,
    /// Processes.
    pub processes: u8,
    /// Claims, whatever their result.
    pub claims: u8,
    /// Faults of each kind.
    pub faults: Faults,
}

/// The subject.
#[derive(Clone, Copy, Debug)]
pub struct Claims {
    /// Its rules.
    pub rules: Rules,
    /// Its bounds.
    pub bounds: Bounds,
    /// The only promise that is checked; `None`: all.
    pub only: Option<Promise>,
}

impl State {
    /// Whether a transaction has locked this job's row, or is about to insert it.
    fn is_locked(&self, job: u8) -> bool {
        self.requests().any(|request| request.job == job && request.progress == Progress::Open)
    }

    /// Whether a claim or commit has locked this node's row.
    fn holds_node(&self, node: u8) -> bool {
        self.requests().any(|request| request.node == node && request.progress == Progress::Open)
    }

    fn requests(&self) -> impl Iterator<Item = Request> + '_ {
        self.processes.iter().filter_map(|process| process.request)
    }

    /// Whether a process lives as this node.
    fn is_lived(&self, node: u8) -> bool {
        self.processes.iter().any(|process| process.node == node)
    }

    fn held(&self) -> impl Iterator<Item = Held> + '_ {
        self.processes.iter().flat_map(|process| process.hand.into_iter().flatten())
    }
}

impl Note {
    /// Whether the check leaves this row of its node alone.
    fn spares(&self, row: Row, job: u8, by_claim: bool) -> bool {
        let known = |known: (u8, u8, u8)| {
            if by_claim { known == (job, row.owner, row.version) } else { known.0 == job }
        };
        row.claim >= self.before || self.known.iter().flatten().any(|one| known(*one))
    }
}

impl Process {
    /// Returns what the process notes for a check, when claims with the number `before` or later are yet to come.
    fn note(&self, before: u8) -> Note {
        Note { before, known: self.hand.map(|held| held.map(|held| (held.job, held.node, held.version))) }
    }

    /// Whether the process has this claim in flight.
    fn has(&self, row: Row, job: u8, by_claim: bool) -> bool {
        self.hand
            .iter()
            .flatten()
            .any(|held| held.job == job && (!by_claim || held.node == row.owner && held.version == row.version))
    }
}

impl Claims {
    /// Returns the sends of a job within the bounds, without preclaimed ones in flight.
    fn sends_left(&self, state: &State, job: u8) -> usize {
        let fates = &state.fates[index(job)][..index(self.bounds.sends)];
        let unsent = fates.iter().filter(|fate| **fate == Fate::Unsent).count();
        let to_come = |request: &Request| request.born && request.job == job && request.progress != Progress::Took;
        unsent.saturating_sub(state.requests().filter(to_come).count())
    }
}

impl Subject for Claims {
    const NAME: &'static str = "claims";
    const SIGHTS: &'static [&'static str] = &[
        "a job is sent again while a handler of its first life runs",
        "two handlers of one job",
        "a node owns what it does not know",
        "a straggler that nobody waits for",
        "a dead letter",
        "a handler of a dead node",
        "a job born owned whose answer got lost",
        "a claim that began after a check noted what its node knows",
    ];

    fn start(&self) -> State {
        let mut state = State { nodes: Nodes::first(self.bounds.processes), ..State::default() };
        for (process, node) in state.processes.iter_mut().zip(1..=self.bounds.processes) {
            process.node = node;
        }
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
            Action::Send { job } => self.sends_left(state, job) > 0,
            Action::Draw { .. } => state.claims < self.bounds.claims,
            Action::Ask { process, born, job } => {
                let numbered = !born && state.processes[index(process)].drawn != 0;
                (numbered || state.claims < self.bounds.claims) && (!born || self.sends_left(state, job) > 0)
            }
            Action::Declare { node } => !state.is_lived(node) || faults.deaths < most.deaths,
            Action::Fence { .. } => faults.deaths < most.deaths,
            Action::Crash { .. } => faults.crashes < most.crashes,
            Action::GiveUp { .. } | Action::Report { answered: false, .. } => faults.lost < most.lost,
            _ => true,
        }
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        let lost = |job: usize| is_lost(&state.fates[job], state.rows[job].map(|row| row.send));
        let miscounted = |row: &Row| row.attempt != row.spent + u8::from(row.owner != 0) || row.attempt > ATTEMPTS;
        state.broken.or_else(|| {
            self.first_broken([
                (Promise::NothingIsLost, (0..JOBS).any(lost)),
                (Promise::AttemptsAreCounted, state.rows.iter().flatten().any(miscounted)),
            ])
        })
    }

    fn at_rest(&self, state: &State) -> bool {
        let ended = |fate: &Fate| !matches!(fate, Fate::Live);
        state.rows.iter().all(Option::is_none) && state.fates.iter().flatten().all(ended)
    }

    fn sights(&self, state: &State) -> u32 {
        let rows = || (0..).zip(state.rows).filter_map(|(job, row): (u8, _)| Some((job, row?)));
        let again = state.held().any(|held| rows().any(|(job, row)| job == held.job && row.send > held.send));
        let twice = state.held().any(|held| state.held().any(|other| other != held && other.job == held.job));
        let orphan = rows().any(|(job, row)| {
            state.processes.iter().any(|process| {
                process.node != 0
                    && process.node == row.owner
                    && process.request.is_none_or(|request| !request.awaited)
                    && !process.has(row, job, true)
            })
        });
        let straggler = state.requests().any(|request| !request.awaited);
        let dead_letter = state.fates.iter().flatten().any(|fate| *fate == Fate::Dead);
        let zombie = state.held().any(|held| held.phase == Phase::Running && state.nodes.is_dead(held.node));
        let born = rows().any(|(job, row)| {
            let process = state.processes.iter().find(|process| process.node == row.owner && process.node != 0);
            row.send == 1 && process.is_some_and(|process| process.looks > 0 && !process.has(row, job, true))
        });
        let later = state.processes.iter().any(|process| {
            process.noted.is_some_and(|note| process.request.is_some_and(|request| request.claim >= note.before))
        });
        bits([again, twice, orphan, straggler, dead_letter, zombie, born, later])
    }
}
