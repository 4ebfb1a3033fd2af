//! Repeating jobs: what a store keeps of them, and what is done with it.
//!
//! A store only reads, writes and fires rows, each conditioned on the row's version; when the next occurrence is, a pure
//! function says ([`Schedule::next_after`](crate::Schedule::next_after)), given the database's clock. So every node may do
//! everything here at the same time, and each occurrence still happens once.

mod again;
mod due;
mod ops;

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

pub use self::again::set_right;
pub use self::due::{Fate, Firing, MISFIRE_GRACE};
pub use self::ops::{
    BACKFILL_MAX, Backfilled, Fired, Put, PutOutcome, backfill, delete, fire_due, get, pause, put, resume, run_now,
};
use super::unreadable::{RowFault, is_news};
use crate::error::Result;
use crate::job::{JobId, JobMessage, ScheduleSpec};
use crate::store::Note;

/// A schedule as it is kept.
#[derive(Clone, Debug)]
pub struct ScheduleInfo {
    /// What was put. Intervals of its schedule count from [`anchor`](Self::anchor).
    pub spec: ScheduleSpec,
    /// Raised by each change; a change names the one it has seen.
    pub version: i64,
    /// When it was put, or its times were last changed.
    pub anchor: Timestamp,
    /// Nothing happens while it is paused.
    pub paused: bool,
    /// The next occurrence; `None` = there is none any more.
    pub next_at: Option<Timestamp>,
    /// The last occurrence that sent a job.
    pub last_at: Option<Timestamp>,
    /// That job. It may be gone.
    pub last_job: Option<JobId>,
    /// Occurrences that sent a job.
    pub fired: u64,
}

/// Which schedules, by name.
#[derive(Clone, Debug)]
pub enum Which<'a> {
    /// These.
    Named(&'a [String]),
    /// At most `limit`, in the order of their names, after this name.
    Page {
        /// The last name of the page before.
        after: Option<&'a str>,
        /// At most this many.
        limit: usize,
    },
    /// At most so many that are due, the longest overdue first.
    Due(usize),
}

/// Says that a schedule can't be read, once for each change of it.
pub(crate) fn tell(fault: &RowFault, version: i64) {
    if is_news("schedule", fault, version) {
        tracing::error!(schedule = fault.name, why = fault.why, "a schedule can't be read here; left to other nodes");
    }
}

/// The repeating jobs of a store. Each method is one transaction and has a deadline; all of them may be repeated.
#[async_trait]
pub trait Schedules: Send + Sync {
    /// How long until the next schedule is due, by the database's clock: zero = one is due; `None` = there is none.
    /// This is all that is asked while nothing is due.
    async fn next_schedule(&self) -> Result<Option<Duration>>;

    /// Reads schedules, and the database's clock. A row that this build can't read (a zone that is not known here) is left out,
    /// and logged once.
    async fn read_schedules(&self, which: Which<'_>) -> Result<(Timestamp, Vec<ScheduleInfo>)>;

    /// Those that this build can't read.
    async fn schedule_faults(&self) -> Result<Vec<RowFault>>;

    /// Writes a schedule: a new one if `seen` is `None`, else in place of the version seen. `false`: there is one already, or it
    /// was changed since. The version that is written is the one seen, raised by one; that of a new one is 0.
    /// What is noted is in the audit exactly if it was written.
    async fn write_schedule(&self, schedule: &ScheduleInfo, seen: Option<i64>, note: Option<&Note<'_>>)
    -> Result<bool>;

    /// Removes schedules; jobs they have sent stay. Returns how many there were. What is noted is in the audit if there were any.
    async fn delete_schedules(&self, names: &[String], note: Option<&Note<'_>>) -> Result<u64>;

    /// Sends jobs of a schedule beside those that are due, and writes or completes the entry in the audit. Returns how many were sent:
    /// a job whose id is taken is not.
    async fn send_of_schedule(&self, jobs: &[JobMessage], note: &mut Note<'_>) -> Result<u64>;

    /// Sends the jobs of occurrences and moves their schedules on, in one transaction. Leaves out those that were changed since,
    /// or that another node is firing; and sends no job where the one before is not over and must not overlap.
    /// Returns what became of each.
    async fn fire_schedules(&self, firings: &[Firing]) -> Result<Vec<Fate>>;
}
