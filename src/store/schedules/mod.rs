//! Schedules of repeating jobs: what a store keeps of them, and the operations on them.
//!
//! A store only reads, writes and fires rows, and changes a row only if its version is the one that was read. A pure function
//! computes the next occurrence ([`Schedule::next_after`](crate::Schedule::next_after)), given the database's clock. So every node may
//! do all of this at the same time, and each occurrence still happens once.

mod again;
mod due;
mod ops;

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

pub use self::again::repair_clock;
pub use self::due::{FireOutcome, Firing, MISFIRE_GRACE};
pub use self::ops::{
    BACKFILL_MAX, Backfilled, Fired, Put, PutOutcome, backfill, delete, fire_due, get, pause, put, resume, run_now,
};
use super::unreadable::{UnreadableRow, is_news};
use crate::error::Result;
use crate::job::{JobId, JobMessage, ScheduleSpec};
use crate::store::AuditNote;

/// A schedule as it is stored.
#[derive(Clone, Debug)]
pub struct ScheduleInfo {
    /// The specification that was put. Intervals of its schedule count from [`anchor`](Self::anchor).
    pub spec: ScheduleSpec,
    /// The version: each change raises it, and names the version that it has read.
    pub version: i64,
    /// When the schedule was put, or its times were last changed.
    pub anchor: Timestamp,
    /// Whether it is paused: nothing happens then.
    pub paused: bool,
    /// The next occurrence; `None` = there are no more.
    pub next_at: Option<Timestamp>,
    /// The last occurrence that sent a job.
    pub last_at: Option<Timestamp>,
    /// The last job of that occurrence. It may be gone.
    pub last_job: Option<JobId>,
    /// How many occurrences sent a job.
    pub fired: u64,
}

/// Which schedules to read.
#[derive(Clone, Debug)]
pub enum ScheduleQuery<'a> {
    /// The schedules with these names.
    Named(&'a [String]),
    /// One page of all schedules, in the order of their names.
    Page {
        /// The last name of the page before; `None` = start with the first.
        after: Option<&'a str>,
        /// How many to read at most.
        limit: usize,
    },
    /// At most this many schedules that are due, the longest overdue first.
    Due(usize),
}

/// Logs that a schedule can't be read, once for each change of it.
pub(crate) fn log_faults(fault: &UnreadableRow, version: i64) {
    if is_news("schedule", fault, version) {
        tracing::error!(schedule = fault.name, why = fault.why, "a schedule can't be read here; left to other nodes");
    }
}

/// Stores schedules of repeating jobs. Each method is one transaction and has a deadline. All of them may be repeated.
#[async_trait]
pub trait Schedules: Send + Sync {
    /// Returns the time until the next schedule is due, by the database's clock. Zero = one is due; `None` = there is none. While
    /// nothing is due, this is the only query.
    async fn next_schedule(&self) -> Result<Option<Duration>>;

    /// Reads schedules and the database's clock. A row that this build can't read (such as one with an unknown time zone) is left
    /// out, and logged once.
    async fn read_schedules(&self, which: ScheduleQuery<'_>) -> Result<(Timestamp, Vec<ScheduleInfo>)>;

    /// Returns the schedules that this build can't read.
    async fn schedule_faults(&self) -> Result<Vec<UnreadableRow>>;

    /// Writes a schedule: a new one if `seen` is `None`, or else in place of the version `seen`. `false`: there is one already, or it
    /// was changed since. The version that is written is `seen` plus 1, or 0 for a new schedule. The note goes into the audit exactly
    /// if the schedule was written.
    async fn write_schedule(
        &self,
        schedule: &ScheduleInfo,
        seen: Option<i64>,
        note: Option<&AuditNote<'_>>,
    ) -> Result<bool>;

    /// Removes schedules; jobs that they have sent stay. Returns how many it removed. The note goes into the audit if there were any.
    async fn delete_schedules(&self, names: &[String], note: Option<&AuditNote<'_>>) -> Result<u64>;

    /// Sends extra jobs of a schedule, besides those that are due, and writes or completes the entry in the audit. Returns how many it sent:
    /// a job whose id exists is skipped.
    async fn send_of_schedule(&self, jobs: &[JobMessage], note: &mut AuditNote<'_>) -> Result<u64>;

    /// Sends the jobs of occurrences and moves their schedules on, in one transaction. Leaves out schedules that were changed since,
    /// or that another node is firing. Sends no job if the one before is not over and must not overlap. Returns the outcome of each
    /// firing.
    async fn fire_schedules(&self, firings: &[Firing]) -> Result<Vec<FireOutcome>>;
}
