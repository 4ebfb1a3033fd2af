//! Filters that select jobs for operators, and the options of a retry.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::JobState;
use crate::job::JobId;

/// A filter of jobs. Every condition given must match; an empty filter matches all jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct JobFilter {
    /// Only these jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub ids: Option<Vec<JobId>>,
    /// Only jobs in one of these states.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub states: Option<Vec<JobState>>,
    /// Only jobs in this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub queue: Option<String>,
    /// Only jobs of this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub kind: Option<String>,
    /// Only jobs of this tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub tenant: Option<String>,
    /// Only jobs of this exclusive group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub group: Option<String>,
    /// Only jobs with this limit key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub limit_key: Option<String>,
    /// Only jobs whose newest error contains this text, case-sensitively.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub error: Option<String>,
    /// Only jobs that were sent in this time.
    #[serde(skip_serializing_if = "TimeRange::is_open")]
    #[doc(hidden)]
    pub created: TimeRange,
    /// Only jobs that became dead letters in this time.
    #[serde(skip_serializing_if = "TimeRange::is_open")]
    #[doc(hidden)]
    pub dead: TimeRange,
}

impl JobFilter {
    /// Matches these jobs.
    pub fn ids(ids: impl IntoIterator<Item = JobId>) -> Self {
        Self { ids: Some(ids.into_iter().collect()), ..Self::default() }
    }

    /// Matches jobs in this state.
    pub fn state(state: JobState) -> Self {
        Self { states: Some(vec![state]), ..Self::default() }
    }

    /// Matches only these jobs.
    #[must_use]
    #[doc(hidden)]
    pub fn with_ids(mut self, ids: Vec<JobId>) -> Self {
        self.ids = Some(ids);
        self
    }

    /// Matches only jobs in one of these states.
    #[must_use]
    pub fn states(mut self, states: Vec<JobState>) -> Self {
        self.states = Some(states);
        self
    }

    /// Matches only jobs in this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Matches only jobs of this kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Matches only jobs of this tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Matches only jobs of this exclusive group.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Matches only jobs with this limit key.
    #[must_use]
    pub fn limit_key(mut self, limit_key: impl Into<String>) -> Self {
        self.limit_key = Some(limit_key.into());
        self
    }

    /// Matches only jobs whose newest error contains this text, case-sensitively.
    #[must_use]
    pub fn error(mut self, error: impl Into<String>) -> Self {
        self.error = Some(error.into());
        self
    }

    /// Matches only jobs that were sent in this time.
    #[must_use]
    pub fn created(mut self, created: TimeRange) -> Self {
        self.created = created;
        self
    }

    /// Matches only jobs that became dead letters in this time.
    #[must_use]
    pub fn dead(mut self, dead: TimeRange) -> Self {
        self.dead = dead;
        self
    }
}

/// A range of time, by the database's clock. Without ends it contains all times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TimeRange {
    /// The start: this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The end: before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl TimeRange {
    /// Returns whether it has a start or an end.
    #[doc(hidden)]
    pub fn is_limited(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }

    fn is_open(&self) -> bool {
        !self.is_limited()
    }

    /// Returns whether a time is in the range.
    #[doc(hidden)]
    pub fn contains(&self, moment: Timestamp) -> bool {
        self.since.is_none_or(|since| moment >= since) && self.until.is_none_or(|until| moment < until)
    }
}

/// How jobs are made to run again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryOptions {
    /// Whether only to count the jobs.
    #[doc(hidden)]
    pub dry_run: bool,
    /// How many jobs to retry at most: those that were sent first. `None` = all.
    #[doc(hidden)]
    pub limit: Option<u64>,
    /// The time over which their due dates are spread evenly, in the order the jobs were sent. A thousand jobs over 100 s are ten a
    /// second. Zero = all at once.
    #[doc(hidden)]
    pub spread: Duration,
}

impl RetryOptions {
    /// Sets whether only to count the jobs: what [`Admin::dry_run`](crate::admin::Admin::dry_run) asks of a store.
    #[doc(hidden)]
    #[must_use]
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Retries at most this many jobs, those that were sent first. All by default.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Spreads their due dates evenly over this time, in the order the jobs were sent. A thousand jobs over 100 s are ten a second.
    /// Zero = all at once.
    #[must_use]
    pub fn spread(mut self, spread: Duration) -> Self {
        self.spread = spread;
        self
    }
}
