//! Which jobs may start: groups, limits, rates and shares.
//!
//! ```text
//!  send, promote ───▶ waiting, not admitted ───▶ claim (no rule covers the job, or the claim counts its limits)
//!        │                 │          │
//!        │ in a group      │ lacks    │ gets all
//!        │                 │ a permit │ its permits
//!        ▼                 ▼          ▼
//!       blocked on a key ─────────▶ admitted ───▶ claim, delivery, hand-out
//!              ▲          gets all                         │
//!              │          its permits                      │ row deleted (trigger)
//!              │                                           ▼
//!        admission pass ◀─── unblock (key) ◀─── permits released
//! ```
//!
//! A job needs permits: one for its group, and one for each limit that covers it. A job that can't have them all is blocked on one *key*, that of
//! the first permit it lacks. It stays in `job`, with the key in `blocked_on`.
//!
//! Whatever releases a permit writes an *unblock* for its key. An *admission pass* reads only the unblocked keys, and for each only the best jobs
//! blocked on it: for a hundred thousand jobs of one group it reads one row. A database makes one admission pass at a time, so a free permit is never
//! counted twice.
//!
//! On PostgreSQL the claims of executors count the limits and rates of queues and kinds themselves ([`AdmitRequest::counting`]), as long as there are
//! no limits of another sort. Then only jobs of groups and jobs to be handed out need an admission pass.
//!
//! [`plan`](plan::plan) decides and knows no database. Each store reads what the plan needs and writes what it decides.

pub(crate) mod plan;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::Count;
use super::rules::Scope;

/// How many waiting rows at the head of a queue are searched for jobs that a rule covers. Claims take rows in the same order, so deeper rows are
/// not about to start.
pub(crate) const LOOK_AHEAD: usize = 5_000;

/// How many overdue unblocks are counted.
pub(crate) const UNBLOCKS: u64 = 100_000;

/// Returns the key of a group: its jobs are blocked on it, and its permit has it.
pub(crate) fn group_key(group: &str) -> String {
    format!("{}{group}", Scope::Group.prefix())
}

/// The scope of an admission pass.
#[derive(Clone, Copy, Debug)]
pub struct AdmitRequest<'a> {
    /// How many jobs to read at most for each key, and from each queue.
    pub limit: usize,
    /// Queues to search for waiting jobs that a rule covers.
    pub queues: &'a [String],
    /// Kinds to search these queues for; `None` = any.
    pub kinds: Option<&'a [String]>,
    /// Whether the claims from these queues count the limits of queues and kinds themselves, if the store can do that
    /// ([`Admitted::counted`]). Jobs under such limits then need no admission.
    pub counting: bool,
}

/// A queue from which a worker takes jobs by SQL.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
pub struct WorkedQueue {
    /// Its name.
    pub queue: String,
    /// The kinds that it takes; `None` = any.
    pub kinds: Option<Vec<String>>,
}

/// The result of an admission pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    /// How many jobs it admitted: they can be claimed now.
    pub jobs: u64,
    /// The queues they wait in.
    pub queues: Vec<String>,
    /// Whether there is more to do: call again.
    pub more: bool,
    /// Time until the next key is due to be unblocked without a released permit, because a rate allows more.
    pub next: Option<Duration>,
    /// Whether some rule limits or pauses, so that new waiting jobs have to be checked too.
    pub limited: bool,
    /// Limits of queues and kinds that claims count themselves ([`ClaimRequest::counted`](super::ClaimRequest::counted)): scope and name of each
    /// rule.
    pub counted: Vec<(Scope, String)>,
    /// The queues from which workers took jobs by SQL within ten minutes, if there are rules: their waiting jobs have to be admitted too.
    pub worked_by_sql: Vec<WorkedQueue>,
    /// The shortest time after which a job counts as one priority higher; `None`: no rule lets jobs age.
    pub aging: Option<Duration>,
    /// Whether the change of a rule is not finished: [`finish_rule_change`](super::engine::Maintenance::finish_rule_change). It is being
    /// finished, or the process that made it has died.
    pub unfinished: bool,
}

/// Unblocked keys that wait for an admission pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionLag {
    /// How many unblocks are due, counted up to 100,000.
    pub unblocks: Count,
    /// How long the oldest has been due, as far as the store knows: SQLite keeps no timestamp of an unblock that is due at once.
    pub longest: Duration,
}
