//! Who may start: groups, limits, rates and shares.
//!
//! ```text
//!                 group        rule found by a look at the front
//!  send, promote ──────▶ at its gate ◀────────────── job (waiting, not admitted) ──▶ claim that counts
//!                          │  gate = key it waits for        │
//!                          └──── admit: slots taken ─────────┴──▶ job (admitted) ──▶ claim, delivery, hand-out
//!                                                                       │ row gone (a trigger)
//!                 gate opens ◀── opening (key) ◀── slots freed ◀────────┘
//! ```
//!
//! A job needs slots: its group's, and one for each limit that covers it. What can't have them waits behind one *gate*, the key of the first slot it
//! lacks: on PostgreSQL in its row, on SQLite in a table of its own, `blocked_job`. Whatever frees a slot writes an *opening*, and a round of admission looks
//! at the best behind each gate that opened, and at no others: a hundred thousand jobs of one group are one row to look at. Rounds take turns over the
//! whole database, so what is decided by counting can't be decided twice.
//!
//! On PostgreSQL the claims of executors count the limits and rates of queues and kinds by themselves ([`AdmitRequest::counting`]), while there are no
//! limits of another sort. Then only jobs of groups, and what is handed out, need a round.
//!
//! [`plan`](plan::plan) decides, and knows no database; each store reads what it needs to know and writes down what it says.

pub(crate) mod plan;
#[cfg(test)]
mod tests;

use std::time::Duration;

use async_trait::async_trait;

use super::rules::Scope;
use crate::error::Result;

/// How many waiting rows of a queue are looked at, from the front, for some that a rule covers. Claims take rows in the same order, so
/// what lies deeper is not about to start.
pub(crate) const LOOK_AHEAD: usize = 5_000;

/// The key of a group's gate and slot.
pub(crate) fn group_key(group: &str) -> String {
    format!("{}{group}", Scope::Group.prefix())
}

/// What a round of admission is to look at.
#[derive(Clone, Copy, Debug)]
pub struct AdmitRequest<'a> {
    /// At most this many jobs behind each gate, and in each queue.
    pub limit: usize,
    /// Queues whose waiting jobs are searched for some that a rule covers.
    pub queues: &'a [String],
    /// Of these kinds only; `None` = any.
    pub kinds: Option<&'a [String]>,
    /// Who claims from these queues counts by itself what the limits of queues and kinds allow, where the store can
    /// ([`Admitted::counted`]): such jobs need no admission.
    pub counting: bool,
}

/// What a round of admission did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    /// Jobs that can be claimed now.
    pub jobs: u64,
    /// The queues they wait in.
    pub queues: Vec<String>,
    /// There is more to look at: call again.
    pub more: bool,
    /// When the next gate opens by itself, counted from now.
    pub next: Option<Duration>,
    /// There are rules that limit or pause, so jobs that come have to be looked at too.
    pub limited: bool,
    /// Limits of queues and kinds that claims count by themselves ([`ClaimRequest::counted`](super::ClaimRequest::counted)), by the names of their
    /// rules.
    pub counted: Vec<(Scope, String)>,
    /// The shortest time after which a job counts as one priority higher; `None`: no rule has jobs age.
    pub aging: Option<Duration>,
}

/// Gates that wait for a round of admission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overdue {
    /// How many openings there are.
    pub openings: u64,
    /// For how long the oldest has been open, as far as the store knows: the embedded one keeps no moment of what opened at once.
    pub longest: Duration,
}

/// Admits jobs.
#[async_trait]
pub trait Admission: Send + Sync {
    /// One round, in one transaction. Without anything to look at it costs one short question.
    async fn admit(&self, request: &AdmitRequest<'_>) -> Result<Admitted>;

    /// Raises jobs that have waited long, as the rules of their queues say: of each queue and priority the oldest `limit`. Returns how
    /// many were raised.
    async fn age_jobs(&self, limit: usize) -> Result<u64>;

    /// Forgets at most `limit` counts of starts that no rate reaches back to. Returns how many. Not part of a round: all admission waits for
    /// one.
    async fn prune_rates(&self, limit: usize) -> Result<u64>;

    /// What is wrong with the slots: held by no job, missing for one that was admitted, more than a group may have, or something waits
    /// behind a gate of any kind that nobody holds and nobody will open. Empty when all is well and nobody is at work. For tests and
    /// `doctor`: it reads everything.
    async fn slot_faults(&self) -> Result<Vec<String>>;

    /// Gates that opened and that nobody has looked behind since. Some are ordinary for a moment.
    async fn overdue_openings(&self) -> Result<Overdue>;
}
