//! Which jobs an operator means, and what is to be done to them.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::JobState;
use crate::job::JobId;

/// Which jobs. Every part given must match; an empty filter matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct JobFilter {
    /// Only these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<JobId>>,
    /// Only in one of these states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub states: Option<Vec<JobState>>,
    /// Only in this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only of this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Only of this tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Only of this exclusive group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Only with this limit key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_key: Option<String>,
    /// Only jobs whose newest error contains this text, upper and lower case told apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Only jobs that were sent in this time.
    #[serde(skip_serializing_if = "TimeRange::is_open")]
    pub created: TimeRange,
    /// Only dead letters, and of these only those that became one in this time.
    #[serde(skip_serializing_if = "TimeRange::is_open")]
    pub dead: TimeRange,
}

impl JobFilter {
    /// These jobs.
    pub fn ids(ids: impl IntoIterator<Item = JobId>) -> Self {
        Self { ids: Some(ids.into_iter().collect()), ..Self::default() }
    }

    /// Jobs in this state.
    pub fn state(state: JobState) -> Self {
        Self { states: Some(vec![state]), ..Self::default() }
    }

    /// Only these.
    #[must_use]
    pub fn with_ids(mut self, ids: impl Into<Option<Vec<JobId>>>) -> Self {
        self.ids = ids.into();
        self
    }

    /// Only in one of these states.
    #[must_use]
    pub fn states(mut self, states: impl Into<Option<Vec<JobState>>>) -> Self {
        self.states = states.into();
        self
    }

    /// Only in this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Only of this kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Only of this tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Only of this exclusive group.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Only with this limit key.
    #[must_use]
    pub fn limit_key(mut self, limit_key: impl Into<String>) -> Self {
        self.limit_key = Some(limit_key.into());
        self
    }

    /// Only jobs whose newest error contains this text, upper and lower case told apart.
    #[must_use]
    pub fn error(mut self, error: impl Into<String>) -> Self {
        self.error = Some(error.into());
        self
    }

    /// Only jobs that were sent in this time.
    #[must_use]
    pub fn created(mut self, created: TimeRange) -> Self {
        self.created = created;
        self
    }

    /// Only dead letters, and of these only those that became one in this time.
    #[must_use]
    pub fn dead(mut self, dead: TimeRange) -> Self {
        self.dead = dead;
        self
    }
}

/// A stretch of time, by the database's clock. Without ends it is all of it, and says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TimeRange {
    /// Then or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Before then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl TimeRange {
    /// Whether it says anything.
    pub fn is_limited(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }

    fn is_open(&self) -> bool {
        !self.is_limited()
    }

    /// Whether a moment is in it.
    pub fn contains(&self, moment: Timestamp) -> bool {
        self.since.is_none_or(|since| moment >= since) && self.until.is_none_or(|until| moment < until)
    }
}

/// How jobs are made to run again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryOptions {
    /// Only count them.
    pub dry_run: bool,
    /// At most this many, those that were sent first; `None` = all.
    pub limit: Option<u64>,
    /// Not all at once: their due dates are spread evenly over this time, in the order they were sent. A thousand jobs over 100 s
    /// are ten a second. Zero = all at once.
    pub spread: Duration,
}

impl RetryOptions {
    /// Only count them.
    #[must_use]
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// At most this many, those that were sent first; `None` = all.
    #[must_use]
    pub fn limit(mut self, limit: impl Into<Option<u64>>) -> Self {
        self.limit = limit.into();
        self
    }

    /// Not all at once: their due dates are spread evenly over this time, in the order they were sent. A thousand jobs over 100 s
    /// are ten a second. Zero = all at once.
    #[must_use]
    pub fn spread(mut self, spread: Duration) -> Self {
        self.spread = spread;
        self
    }
}
