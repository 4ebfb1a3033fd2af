//! One given id, sent by two senders at once, in the tables that a job moves between; beside it an unrelated job in the same batch.
//!
//! Senders work in transactions: their inserts are visible to others after the commit, and a transaction that reads a snapshot sees the state at its
//! begin. Moves are single statements.

mod cases;
mod step;

use crate::kernel::{Ranges, bits, index};
use crate::vocabulary::{Promise, Rules, Subject};

pub use cases::cases;

/// Senders of the id.
pub const SENDERS: usize = 2;
/// Tables that a job can be in.
pub const TABLES: usize = 3;
/// Attempts of a job.
pub const ATTEMPTS: u8 = 2;

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// `job`
    Job,
    /// `timer_job`
    Timer,
    /// `dead_letter_job`
    Dead,
}

/// A row of the given id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The node that owns it; zero for none.
    pub owner: u8,
    /// `attempt`.
    pub attempt: u8,
    /// Ghost: runs of the handler that failed or whose node died.
    pub spent: u8,
}

/// The unrelated job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Innocent {
    /// It waits.
    #[default]
    Waiting,
    /// A node owns it.
    Owned(u8),
    /// Done, or a dead letter after it died twice.
    Ended,
}

/// A sender's transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sender {
    /// Not begun.
    #[default]
    Idle,
    /// It reads a snapshot.
    Begun {
        /// The id existed.
        saw: bool,
        /// The number of times it had been sent.
        sends: u8,
    },
    /// It has flushed: into this table, or not at all, because it found the id.
    Flushed(Option<Table>),
    /// Committed or given up.
    Ended,
}

/// The whole state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The rows of the id by table.
    pub rows: [Option<Row>; TABLES],
    /// The other job.
    pub innocent: Innocent,
    /// The senders. The first sends without a delay, the second with one.
    pub senders: [Sender; SENDERS],
    /// The live node; those before it are dead.
    pub node: u8,
    /// Ghost: how often the id was committed.
    pub sends: u8,
    /// Ghost: how many of those ended with a success or by an operator.
    pub ended: u8,
    /// Ghost: how often an operator requeued a dead letter.
    pub revived: u8,
}

/// The subject.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Its rules.
    pub rules: Rules,
    /// Crashes of the node.
    pub crashes: u8,
    /// Dead letters that are requeued.
    pub revivals: u8,
    /// Transactions of each sender.
    pub again: bool,
    /// The only promise that is checked; `None`: all.
    pub only: Option<Promise>,
}

actions! {
    Begin { sender }: "{sender} begins a transaction that reads a snapshot";
    Flush { sender }: "{sender} looks for the id, and inserts it unless it is there";
    Commit { sender }: "{sender} commits";
    RollBack { sender }: "{sender} rolls back";
    Again { sender }: "{sender} is about to send the id again";
    Claim: "the node claims the job";
    Succeed: "the job's handler succeeds";
    Fail: "the job's handler fails";
    Promote: "the delayed job is due";
    Revive: "a user lets the dead letter run again";
    Cancel: "a user cancels the job, wherever it stands";
    ClaimInnocent: "the node claims the innocent job";
    EndInnocent: "the innocent job's handler succeeds";
    Crash: "the node's process crashes, and another one starts";
    Release: "all that dead nodes own is released, in one statement";
}

impl State {
    /// Returns the number of tables that have the id.
    fn places(&self) -> usize {
        self.rows.iter().flatten().count()
    }
}

impl Subject for Identity {
    const NAME: &'static str = "identity";
    const SIGHTS: &'static [&'static str] = &[
        "a sender has inserted and the other one waits",
        "a job moved since a snapshot was taken",
        "a sender found the id and inserted nothing",
        "a dead letter",
        "both jobs of a dead node",
        "the id is sent again",
    ];

    fn start(&self) -> State {
        State { node: 1, ..State::default() }
    }

    fn ranges(&self) -> Ranges {
        Ranges { senders: SENDERS as u8, ..Ranges::default() }
    }

    fn only(&self) -> Option<Promise> {
        self.only
    }

    fn within_bounds(&self, state: &State, action: Action) -> bool {
        match action {
            Action::Crash => state.node <= self.crashes,
            Action::Revive => state.revived < self.revivals,
            Action::Again { .. } => self.again && state.sends < 6,
            _ => true,
        }
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        let often = |row: &Row| row.spent > ATTEMPTS;
        let rows = usize::from(state.ended) + state.places();
        self.first_broken([
            (Promise::IdsStandOnce, state.places() > 1),
            (Promise::AttemptsAreCounted, state.rows.iter().flatten().any(often)),
            (Promise::NothingIsLost, usize::from(state.sends) != rows),
        ])
    }

    /// Dead letters wait for an operator.
    fn at_rest(&self, state: &State) -> bool {
        state.innocent == Innocent::Ended
            && state.rows[index(Table::Job as u8)].is_none()
            && state.rows[index(Table::Timer as u8)].is_none()
    }

    fn sights(&self, state: &State) -> u32 {
        let [one, other] = state.senders;
        let job = state.rows[0];
        let waits = matches!(one, Sender::Flushed(Some(_))) && matches!(other, Sender::Idle | Sender::Begun { .. });
        let moved = matches!(one, Sender::Begun { saw: true, .. }) && job.is_none() && state.places() > 0;
        let found = one == Sender::Flushed(None) || other == Sender::Flushed(None);
        let dead = state.rows[2].is_some();
        let lost = |owner: u8| owner != 0 && owner < state.node;
        let both =
            job.is_some_and(|row| lost(row.owner)) && matches!(state.innocent, Innocent::Owned(owner) if lost(owner));
        let again = state.sends > 1 && state.places() > 0;
        bits([waits, moved, found, dead, both, again])
    }
}
