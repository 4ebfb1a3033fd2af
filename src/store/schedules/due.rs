//! What is to happen when a schedule is due.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::ScheduleInfo;
use crate::job::{JobId, JobMessage, Misfire, Overlap, ScheduleSpec};

/// An occurrence this late was missed, and its schedule's misfire policy says what becomes of it.
pub const MISFIRE_GRACE: Duration = Duration::from_secs(60);

/// Content that is sent in one transaction, in bytes; but at least one job of each schedule.
pub(super) const BYTES: usize = 16 * 1024 * 1024;

/// What is to happen to one schedule.
#[derive(Clone, Debug)]
pub struct Firing {
    /// Which.
    pub name: String,
    /// As it was seen: if it was changed since, nothing happens.
    pub seen: i64,
    /// The occurrence that was due then. One that was deleted and put again meanwhile has a version that was seen before, but is never due
    /// at a moment before it was put.
    pub due: Timestamp,
    /// The jobs to send, earliest occurrence first. None: only the next occurrence is set.
    pub jobs: Vec<JobMessage>,
    /// The occurrence of the last of them.
    pub last_at: Option<Timestamp>,
    /// Nothing is sent while this job is not over.
    pub unless_alive: Option<JobId>,
    /// The next occurrence, if the jobs were sent.
    pub next_at: Option<Timestamp>,
    /// The next occurrence, if they were not: they don't count then.
    pub next_if_left_out: Option<Timestamp>,
    /// The next one is due already: it was more than fits into one transaction.
    pub more: bool,
}

/// What became of a firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its jobs were sent, and the schedule moved on.
    Sent,
    /// The schedule moved on without: the job before is not over.
    LeftOut,
    /// Nothing happened: the schedule was changed, or another node has it in hand.
    Lost,
}

impl ScheduleSpec {
    /// The occurrence after this moment, within the limits of the schedule; `sent` jobs were sent before.
    pub(super) fn next(&self, after: Timestamp, sent: u64) -> Option<Timestamp> {
        if self.times.is_some_and(|times| sent >= times) {
            return None;
        }
        self.schedule.next_after(after).filter(|next| self.until.is_none_or(|until| *next <= until))
    }
}

impl Firing {
    /// What is to happen at `now` with a schedule whose occurrence `due` has come, with at most `most` jobs of `bytes`
    /// altogether, but at least one.
    pub(in crate::store) fn plan(
        info: &ScheduleInfo,
        due: Timestamp,
        now: Timestamp,
        (most, bytes): (usize, usize),
    ) -> Self {
        let spec = &info.spec;
        // None is after the end, but the latest could be looked for there.
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
        // What was left out on purpose stays out.
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
