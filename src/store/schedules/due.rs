//! What happens when a schedule is due.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::ScheduleInfo;
use crate::job::{JobId, JobMessage, Misfire, Overlap, ScheduleSpec};

/// How late an occurrence may be before it counts as missed. The misfire policy of its schedule says what becomes of missed ones.
pub const MISFIRE_GRACE: Duration = Duration::from_secs(60);

/// How many bytes of payload are sent in one transaction; but at least one job of each schedule.
pub(super) const BYTES: usize = 16 * 1024 * 1024;

/// What to do with one schedule that is due.
#[derive(Clone, Debug)]
pub struct Firing {
    /// The name of the schedule.
    pub name: String,
    /// The version that was read: if the schedule was changed since, nothing happens.
    pub seen: i64,
    /// The occurrence that was due then. A schedule that was deleted and put again meanwhile may have the same version, but it is never due
    /// before it was put.
    pub due: Timestamp,
    /// The jobs to send, earliest occurrence first. If there are none, only the next occurrence is set.
    pub jobs: Vec<JobMessage>,
    /// The occurrence of the last of these jobs.
    pub last_at: Option<Timestamp>,
    /// A job that must be over: otherwise nothing is sent.
    pub unless_alive: Option<JobId>,
    /// The next occurrence if the jobs were sent.
    pub next_at: Option<Timestamp>,
    /// The next occurrence if they were not sent, and so don't count.
    pub next_if_left_out: Option<Timestamp>,
    /// Whether the next occurrence is due already, because not all fitted into one transaction.
    pub more: bool,
}

/// The outcome of a firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FireOutcome {
    /// The jobs were sent, and the schedule moved on.
    Sent,
    /// The schedule moved on without sending, because the job before is not over.
    Skipped,
    /// Nothing happened, because the schedule was changed or another node is firing it.
    Lost,
}

impl ScheduleSpec {
    /// Returns the next occurrence after this time, within the limits of the schedule. `sent` jobs were sent before.
    pub(super) fn next(&self, after: Timestamp, sent: u64) -> Option<Timestamp> {
        if self.times.is_some_and(|times| sent >= times) {
            return None;
        }
        self.schedule.next_after(after).filter(|next| self.until.is_none_or(|until| *next <= until))
    }
}

impl Firing {
    /// Decides what to do at `now` with a schedule whose occurrence `due` has come. It sends at most `most` jobs with at most `bytes` of
    /// payload altogether, but may always send one.
    pub(in crate::store) fn plan(
        info: &ScheduleInfo,
        due: Timestamp,
        now: Timestamp,
        (most, bytes): (usize, usize),
    ) -> Self {
        let spec = &info.spec;
        // No occurrence is after the end of the schedule, but `latest` could look for one there.
        let end = spec.until.map_or(now, |until| until.min(now)).max(due);
        let occurrences = match spec.misfire {
            Misfire::All => {
                let size = spec.message.payload.as_bytes().len().max(1);
                let left = spec.times.map_or(u64::MAX, |times| times.saturating_sub(info.fired));
                let most = most.min((bytes / size).max(1)).min(usize::try_from(left).unwrap_or(usize::MAX));
                std::iter::successors(Some(due), |last| spec.schedule.next_after(*last).filter(|next| *next <= end))
                    .take(most)
                    .collect()
            }
            Misfire::Once => vec![spec.schedule.latest(due, end)],
            Misfire::Skip => {
                let latest = spec.schedule.latest(due, end);
                let grace = SignedDuration::try_from(MISFIRE_GRACE).unwrap_or(SignedDuration::MAX);
                if now.duration_since(latest) <= grace { vec![latest] } else { Vec::new() }
            }
        };
        // Occurrences that were left out on purpose stay out.
        let from = if spec.misfire == Misfire::All { occurrences.last().copied().unwrap_or(now) } else { now };
        let next_at = spec.next(from, info.fired + occurrences.len() as u64);
        Self {
            name: spec.name.clone(),
            seen: info.version,
            due,
            jobs: occurrences.iter().map(|at| spec.occurrence(*at)).collect(),
            last_at: occurrences.last().copied(),
            unless_alive: (spec.overlap == Overlap::Forbid).then_some(info.last_job).flatten(),
            next_at,
            next_if_left_out: spec.next(from, info.fired),
            more: next_at.is_some_and(|next| next <= now),
        }
    }
}
