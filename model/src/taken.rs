//! Jobs taken by SQL: a worker ends its job in the transaction of its work, and dies, comes late or is cut off at any moment.
//!
//! A lease can run out at any time while its worker continues, so these results do not depend on speed, and extensions are left out.

mod cases;
mod step;

use crate::kernel::{Faults, Ranges, bits, index, is_lost};
use crate::vocabulary::{Promise, Rules, Subject};

pub use crate::kernel::Fate;
pub use cases::cases;

/// Jobs with distinct ids.
pub const JOBS: usize = 2;
/// Workers. Each works on one job at a time.
pub const WORKERS: usize = 2;
/// How often one id can be sent.
pub const SENDS: usize = 2;
/// Attempts of a job.
pub const ATTEMPTS: u8 = 2;

/// A row: in `job`, or taken, in `external_job`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The row is in `external_job`.
    pub out: bool,
    /// The token of the hand-out.
    pub token: u8,
    /// `attempt`.
    pub attempt: u8,
    /// The worker whose open transaction has locked it, because it ends the job.
    pub locked_by: Option<u8>,
    /// Ghost: the send of this id that it comes from.
    pub send: u8,
    /// Ghost: its hand-out; never twice the same.
    pub hand_out: u8,
    /// Ghost: attempts that failed or timed out.
    pub spent: u8,
}

/// The stage of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It works, in a transaction that is open.
    Works,
    /// It has called the function that ends the job: as done, or as failed. The transaction is still open.
    Ends {
        /// As done.
        done: bool,
        /// The function has accepted it.
        accepted: bool,
    },
}

/// A job that a worker has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Work {
    /// The job.
    pub job: u8,
    /// The token that it got.
    pub token: u8,
    /// Ghost: the hand-out.
    pub hand_out: u8,
    /// Its stage.
    pub stage: Stage,
}

/// The whole state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The rows.
    pub rows: [Option<Row>; JOBS],
    /// Ghost: the state of each send.
    pub fates: [[Fate; SENDS]; JOBS],
    /// The workers.
    pub workers: [Option<Work>; WORKERS],
    /// Ghost: the last hand-out.
    pub hand_outs: u8,
    /// Ghost: faults so far.
    pub faults: Faults,
    /// Ghost: the promise that the last step broke.
    pub broken: Option<Promise>,
}

/// The subject.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Its rules.
    pub rules: Rules,
    /// Jobs.
    pub jobs: u8,
    /// Sends of each.
    pub sends: u8,
    /// Hand-outs.
    pub hand_outs: u8,
    /// Faults of each kind.
    pub faults: Faults,
    /// The only promise that is checked; `None`: all.
    pub only: Option<Promise>,
}

// Workers are processes.
actions! {
    Send { job }: "{job} is sent";
    Cancel { job }: "{job} is cancelled";
    Take { process, job }: "{process} takes {job}";
    Expire { job }: "the lease of {job} runs out";
    End { process, success }: "{process} ends its job as {}, in the transaction of its work", if success { "done" } else { "failed" };
    Commit { process }: "{process} commits";
    Abort { process }: "the transaction of {process} is rolled back";
    Die { process }: "{process} dies";
}

impl State {
    fn row_of(&self, work: Work) -> Option<Row> {
        self.rows[index(work.job)].filter(|row| row.out && row.hand_out == work.hand_out)
    }
}

impl Subject for Taken {
    const NAME: &'static str = "taken";
    const SIGHTS: &'static [&'static str] = &[
        "two workers at one job",
        "a worker at a job that it no longer has",
        "an end that waits for its commit",
        "a refused end whose transaction is open",
        "a worker at a job's first life beside the row of its second",
        "a dead letter",
    ];

    fn start(&self) -> State {
        State::default()
    }

    fn ranges(&self) -> Ranges {
        Ranges { jobs: self.jobs, processes: WORKERS as u8, ..Ranges::default() }
    }

    fn only(&self) -> Option<Promise> {
        self.only
    }

    fn within_bounds(&self, state: &State, action: Action) -> bool {
        match action {
            Action::Send { job } => state.fates[index(job)][index(self.sends) - 1] == Fate::Unsent,
            // Workers differ only by name: the first to act is called the first.
            Action::Take { process, .. } => state.hand_outs < self.hand_outs && (process == 0 || state.hand_outs > 0),
            Action::Abort { .. } | Action::Die { .. } => state.faults.crashes < self.faults.crashes,
            _ => true,
        }
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        let lost = |job: usize| is_lost(&state.fates[job], state.rows[job].map(|row| row.send));
        let miscounted = |row: &Row| row.attempt != row.spent + u8::from(row.out) || row.attempt > ATTEMPTS;
        state.broken.or_else(|| {
            self.first_broken([
                (Promise::NothingIsLost, (0..JOBS).any(lost)),
                (Promise::AttemptsAreCounted, state.rows.iter().flatten().any(miscounted)),
            ])
        })
    }

    fn at_rest(&self, state: &State) -> bool {
        state.rows.iter().all(Option::is_none) && state.workers.iter().all(Option::is_none)
    }

    fn sights(&self, state: &State) -> u32 {
        let working = || state.workers.iter().flatten().copied();
        let together = working().enumerate().any(|(n, one)| working().skip(n + 1).any(|other| one.job == other.job));
        let second_life = |work: Work| state.rows[index(work.job)].is_some_and(|row| row.send > 0 && row.hand_out == 0);
        bits([
            together,
            working().any(|work| state.row_of(work).is_none()),
            working().any(|work| matches!(work.stage, Stage::Ends { accepted: true, .. })),
            working().any(|work| matches!(work.stage, Stage::Ends { accepted: false, .. })),
            working().any(second_life),
            state.fates.iter().flatten().any(|fate| *fate == Fate::Dead),
        ])
    }
}
