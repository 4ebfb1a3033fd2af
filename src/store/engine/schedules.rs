//! The role [`Schedules`], and the operations on schedules that it serves.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::StoreInfo;
use crate::error::Result;
use crate::job::JobMessage;
use crate::store::AuditNote;
use crate::store::schedules::ScheduleInfo;
pub use crate::store::schedules::again::repair_clock;
pub use crate::store::schedules::due::{FireOutcome, Firing, MISFIRE_GRACE};
pub use crate::store::schedules::ops::{Fired, backfill, delete, fire_due, get, pause, put, resume, run_now};
pub use crate::store::schedules::query::ScheduleQuery;

/// Stores schedules of repeating jobs.
#[async_trait]
#[doc(hidden)]
pub trait Schedules: StoreInfo + Send + Sync {
    /// Whether a schedule can be due by another clock than that of the database, so that a poll of the database does not see it. Only in the
    /// test kit.
    fn has_own_clock(&self) -> bool {
        false
    }

    /// Returns the time until the next schedule is due, by the database's clock. Zero = one is due; `None` = there is none. While
    /// nothing is due, this is the only query.
    async fn next_schedule(&self) -> Result<Option<Duration>>;

    /// Reads schedules and the database's clock. A row that this build can't read (such as one with an unknown time zone) is left
    /// out, and logged once.
    async fn read_schedules(&self, which: ScheduleQuery<'_>) -> Result<(Timestamp, Vec<ScheduleInfo>)>;

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

    /// Sends extra jobs of a schedule, besides those that are due. Returns how many it sent: a job whose id exists is skipped. Writes or
    /// completes the entry in the audit, if there is to be one.
    async fn send_of_schedule(&self, jobs: &[JobMessage], note: Option<&mut AuditNote<'_>>) -> Result<u64>;

    /// Sends the jobs of occurrences and moves their schedules on, in one transaction. Leaves out schedules that were changed since,
    /// or that another node is firing. Sends no job if the one before is not over and must not overlap. Returns the outcome of each
    /// firing.
    async fn fire_schedules(&self, firings: &[Firing]) -> Result<Vec<FireOutcome>>;
}
