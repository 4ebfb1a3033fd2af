//! Jobs handed out to external workers: tokens, leases, deliveries that come twice or late, hand-outs that may not have arrived.
//!
//! A lease can run out at any time while its worker continues, so these results do not depend on speed.

mod cases;
mod step;

use crate::kernel::{Faults, Ranges, bits, index, is_lost};
use crate::vocabulary::{Promise, Rules, Subject};

pub use crate::kernel::Fate;
pub use cases::cases;

/// Jobs with distinct ids.
pub const JOBS: usize = 2;
/// Copies of hand-outs, in the broker and with workers.
pub const COPIES: usize = 3;
/// How often one id can be sent.
pub const SENDS: usize = 2;
/// Attempts of a job.
pub const ATTEMPTS: u8 = 2;

/// A row: in `job`, or handed out in `external_job`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The row is in `external_job`.
    pub out: bool,
    /// `version`: the token of the hand-out.
    pub token: u8,
    /// `attempt`.
    pub attempt: u8,
    /// Ghost: the send of this id that it comes from.
    pub send: u8,
    /// Ghost: its hand-out; never twice the same.
    pub hand_out: u8,
    /// Ghost: attempts that failed or timed out.
    pub spent: u8,
}

/// The state of the database, which a backup restores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Database {
    /// The rows.
    pub rows: [Option<Row>; JOBS],
    /// Ghost: the state of each send.
    pub fates: [[Fate; SENDS]; JOBS],
}

/// The location of a copy of a hand-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Where {
    /// The node has not published it, or does not know whether it has.
    Publishing,
    /// In the broker's queue.
    Queued,
    /// A worker works on it.
    Worker,
    /// It succeeded; its report was not confirmed.
    Succeeded,
    /// It failed; its report was not confirmed.
    Failed,
}

/// A hand-out as a message, or with a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Copy {
    /// Its job.
    pub job: u8,
    /// Its token.
    pub token: u8,
    /// Ghost: the hand-out.
    pub hand_out: u8,
    /// Its location.
    pub place: Where,
}

/// The whole state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The database.
    pub now: Database,
    /// The standby, or a backup: an earlier state of the database.
    pub before: Database,
    /// Hand-outs in flight.
    pub copies: [Option<Copy>; COPIES],
    /// Ghost: the last token drawn.
    pub hand_outs: u8,
    /// Ghost: faults so far.
    pub faults: Faults,
    /// Ghost: the promise that the last step broke.
    pub broken: Option<Promise>,
}

/// The subject.
#[derive(Clone, Copy, Debug)]
pub struct External {
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

// Copies are numbered by their position.
actions! {
    Save: "the standby is as the primary is (or: a backup is made)";
    Restore: "the standby takes the primary's place (or: the backup is restored)";
    Send { job }: "{job} is sent";
    Cancel { job }: "{job} is cancelled";
    HandOut { job }: "{job} is handed out";
    Expire { job }: "the lease of {job} runs out";
    Publish { copy, confirmed }: "{copy} is published{}", if confirmed { "" } else { ", the confirm gets lost" };
    TakeBack { copy }: "{copy} was not confirmed and is taken back";
    Forgotten { copy }: "{copy} is forgotten by its node, which crashes";
    Deliver { copy }: "{copy} is delivered to a worker";
    Redeliver { copy }: "{copy} is delivered again, and its first worker goes on";
    Report { copy, success, confirmed }: "the worker of {copy} reports that it {}{}",
        if success { "succeeded" } else { "failed" }, if confirmed { "" } else { "; it hears no answer" };
}

impl Subject for External {
    const NAME: &'static str = "external";
    const SIGHTS: &'static [&'static str] = &[
        "two workers at one hand-out",
        "two workers at different hand-outs of one job",
        "a worker at a job that is no longer handed out",
        "a dead letter",
        "a message of a hand-out that is over",
        "a hand-out that the database has forgotten",
    ];

    fn start(&self) -> State {
        State::default()
    }

    fn ranges(&self) -> Ranges {
        Ranges { jobs: self.jobs, copies: COPIES as u8, ..Ranges::default() }
    }

    fn only(&self) -> Option<Promise> {
        self.only
    }

    fn within_bounds(&self, state: &State, action: Action) -> bool {
        let (faults, most) = (state.faults, self.faults);
        match action {
            Action::Send { job } => state.now.fates[index(job)][index(self.sends) - 1] == Fate::Unsent,
            Action::HandOut { .. } => state.hand_outs < self.hand_outs,
            Action::Publish { confirmed: false, .. }
            | Action::Report { confirmed: false, .. }
            | Action::Forgotten { .. }
            | Action::Redeliver { .. } => faults.network < most.network,
            Action::Save | Action::Restore => faults.forgets < most.forgets,
            _ => true,
        }
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        let lost = |job: usize| is_lost(&state.now.fates[job], state.now.rows[job].map(|row| row.send));
        let miscounted = |row: &Row| row.attempt != row.spent + u8::from(row.out) || row.attempt > ATTEMPTS;
        state.broken.or_else(|| {
            self.first_broken([
                (Promise::NothingIsLost, (0..JOBS).any(lost)),
                (Promise::AttemptsAreCounted, state.now.rows.iter().flatten().any(miscounted)),
            ])
        })
    }

    fn at_rest(&self, state: &State) -> bool {
        state.now.rows.iter().all(Option::is_none) && state.copies.iter().all(Option::is_none)
    }

    fn sights(&self, state: &State) -> u32 {
        let copies = || state.copies.iter().flatten();
        let working = || copies().filter(|copy| copy.place >= Where::Worker);
        let row = |copy: &Copy| state.now.rows[index(copy.job)];
        let pairs = |of: fn(&Copy, &Copy) -> bool| {
            working()
                .enumerate()
                .any(|(n, one)| working().skip(n + 1).any(|other| one.job == other.job && of(one, other)))
        };
        let same = pairs(|one, other| one.hand_out == other.hand_out);
        let different = pairs(|one, other| one.hand_out != other.hand_out);
        let gone = working().any(|copy| row(copy).is_none_or(|row| !row.out));
        let dead = state.now.fates.iter().flatten().any(|fate| *fate == Fate::Dead);
        let over = copies()
            .any(|copy| copy.place == Where::Queued && row(copy).is_some_and(|row| row.hand_out != copy.hand_out));
        let forgotten = state.faults.forgets > 1 && working().any(|copy| row(copy).is_some_and(|row| row.attempt == 0));
        bits([same, different, gone, dead, over, forgotten])
    }
}
