//! Jobs handed out to external workers: tokens, leases, deliveries that come twice or late, hand-outs that may not have arrived.
//!
//! A lease can run out at any time while its worker continues, so these results do not depend on speed.

mod cases;
mod step;

use std::fmt;

use crate::vocabulary::{Promise, Rules, Subject, index, job_name};

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

/// The state of a send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fate {
    /// Not sent yet.
    #[default]
    Unsent,
    /// Committed and not ended.
    Live,
    /// Its worker succeeded.
    Done,
    /// Cancelled by an operator.
    Cancelled,
    /// A dead letter.
    Dead,
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

/// Faults so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Lost confirms and reports, redeliveries, and publishers that crashed.
    pub network: u8,
    /// Restores and failovers.
    pub forgets: u8,
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

/// One step. Copies are numbered by their position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the words of each stand below")]
pub enum Action {
    Send { job: u8 },
    Cancel { job: u8 },
    HandOut { job: u8 },
    Publish { copy: u8, confirmed: bool },
    TakeBack { copy: u8 },
    Forgotten { copy: u8 },
    Deliver { copy: u8 },
    Redeliver { copy: u8 },
    Report { copy: u8, success: bool, confirmed: bool },
    Expire { job: u8 },
    Save,
    Restore,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let j = job_name;
        let c = |copy: u8| format!("hand-out {}", copy + 1);
        match *self {
            Self::Send { job } => write!(f, "{} is sent", j(job)),
            Self::Cancel { job } => write!(f, "{} is cancelled", j(job)),
            Self::HandOut { job } => write!(f, "{} is handed out", j(job)),
            Self::Publish { copy, confirmed: true } => write!(f, "{} is published", c(copy)),
            Self::Publish { copy, confirmed: false } => write!(f, "{} is published, the confirm gets lost", c(copy)),
            Self::TakeBack { copy } => write!(f, "{} was not confirmed and is taken back", c(copy)),
            Self::Forgotten { copy } => write!(f, "{} is forgotten by its node, which crashes", c(copy)),
            Self::Deliver { copy } => write!(f, "{} is delivered to a worker", c(copy)),
            Self::Redeliver { copy } => write!(f, "{} is delivered again, and its first worker goes on", c(copy)),
            Self::Report { copy, success, confirmed } => write!(
                f,
                "the worker of {} reports that it {}{}",
                c(copy),
                if success { "succeeded" } else { "failed" },
                if confirmed { "" } else { "; it hears no answer" }
            ),
            Self::Expire { job } => write!(f, "the lease of {} runs out", j(job)),
            Self::Save => write!(f, "the standby is as the primary is (or: a backup is made)"),
            Self::Restore => write!(f, "the standby takes the primary's place (or: the backup is restored)"),
        }
    }
}

impl Subject for External {
    type State = State;
    type Action = Action;

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

    fn alphabet(&self) -> Vec<Action> {
        let mut all = vec![Action::Save, Action::Restore];
        for job in 0..self.jobs {
            all.extend([Action::Send { job }, Action::Cancel { job }, Action::HandOut { job }, Action::Expire { job }]);
        }
        for copy in 0..COPIES as u8 {
            all.extend([
                Action::Publish { copy, confirmed: true },
                Action::Publish { copy, confirmed: false },
                Action::TakeBack { copy },
                Action::Forgotten { copy },
                Action::Deliver { copy },
                Action::Redeliver { copy },
            ]);
            for success in [true, false] {
                all.extend([true, false].map(|confirmed| Action::Report { copy, success, confirmed }));
            }
        }
        all
    }

    fn step(&self, state: &State, action: Action) -> Option<State> {
        self.follow(state, action)
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

    fn watches(&self, promise: Promise) -> bool {
        self.only.is_none_or(|only| only == promise)
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        let lost = |job: usize| {
            (0..SENDS).any(|send| {
                state.now.fates[job][send] == Fate::Live
                    && state.now.rows[job].is_none_or(|row| usize::from(row.send) != send)
            })
        };
        let miscounted = |row: &Row| row.attempt != row.spent + u8::from(row.out) || row.attempt > ATTEMPTS;
        if state.broken.is_some() {
            state.broken
        } else if self.watches(Promise::NothingIsLost) && (0..JOBS).any(lost) {
            Some(Promise::NothingIsLost)
        } else if self.watches(Promise::AttemptsAreCounted) && state.now.rows.iter().flatten().any(miscounted) {
            Some(Promise::AttemptsAreCounted)
        } else {
            None
        }
    }

    fn repair(&self, state: &State) -> Option<Action> {
        self.next_repair(state)
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
        (0..).zip([same, different, gone, dead, over, forgotten]).map(|(n, is)| u32::from(is) << n).sum()
    }
}
