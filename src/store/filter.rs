//! Which jobs an operator means, and what is to be done to them.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::JobState;
use crate::job::JobId;

/// Which jobs. Every part given must match; an empty filter matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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
pub struct RetryOptions {
    /// Only count them.
    pub dry_run: bool,
    /// At most this many, those that were sent first; `None` = all.
    pub limit: Option<u64>,
    /// Not all at once: their due dates are spread evenly over this time, in the order they were sent. A thousand jobs over 100 s
    /// are ten a second. Zero = all at once.
    pub spread: Duration,
}
