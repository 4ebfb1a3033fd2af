//! Schedules of repeating jobs: what a store keeps of them, and the operations on them.
//!
//! A store only reads, writes and fires rows, and changes a row only if its version is the one that was read. A pure function
//! computes the next occurrence ([`Schedule::next_after`](crate::Schedule::next_after)), given the database's clock. So every node may
//! do all of this at the same time, and each occurrence still happens once.

pub(crate) mod again;
pub(crate) mod due;
pub(crate) mod ops;
pub(crate) mod query;
pub(crate) mod travel;

use jiff::Timestamp;

pub(crate) use self::again::repair_clock;
pub(crate) use self::due::{FireOutcome, Firing};
pub use self::ops::{BACKFILL_MAX, Backfilled, Put, PutOutcome};
pub(crate) use self::ops::{backfill, delete, fire_due, get, pause, plan_due, put, resume, run_now};
pub(crate) use self::query::ScheduleQuery;
pub(crate) use self::travel::TravelledSchedules;
use super::unreadable::{UnreadableRow, is_news};
use crate::job::{JobId, ScheduleSpec};

/// A schedule as it is stored.
#[derive(Clone, Debug)]
pub struct ScheduleInfo {
    /// The specification that was put. Intervals of its schedule count from [`anchor`](Self::anchor).
    pub spec: ScheduleSpec,
    /// The version: each change raises it, and names the version that it has read.
    #[doc(hidden)]
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

impl ScheduleInfo {
    /// Returns whether an occurrence has come at this time.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        !self.paused && self.next_at.is_some_and(|next| next <= now)
    }
}

/// Logs that a schedule can't be read, once for each change of it.
pub(crate) fn log_faults(fault: &UnreadableRow, version: i64) {
    if is_news("schedule", fault, version) {
        tracing::error!(schedule = fault.name, why = fault.why, "a schedule can't be read here; left to other nodes");
    }
}
