//! What is remembered of jobs that ended, and their results.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::TimeRange;
use crate::config::HistoryConfig;
use crate::error::{Error, Result};
use crate::job::{JobId, NodeId, Payload};

/// How a job, or an attempt of it, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Ending {
    /// It succeeded.
    Done,
    /// The attempt failed; another one follows.
    Failed,
    /// The node that ran it was lost, or an external worker did not answer in time; another attempt follows.
    Lost,
    /// It became a dead letter.
    Dead,
    /// Its time to live was over before it started: a dead letter too.
    Expired,
    /// It was removed by its handler or by an operator.
    Cancelled,
    /// An operator removed it for good.
    Deleted,
}

impl Ending {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Done, Self::Failed, Self::Lost, Self::Dead, Self::Expired, Self::Cancelled, Self::Deleted];

    /// The word used in output and filters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::Dead => "dead",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Deleted => "deleted",
        }
    }

    /// Whether something went wrong: what is remembered with [`Keep::Failed`](crate::config::Keep::Failed).
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Lost | Self::Dead | Self::Expired)
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Ending {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|ending| ending.as_str() == text).ok_or_else(|| {
            let all = Self::ALL.map(Self::as_str).join(", ");
            Error::invalid(format!("{text:?} is not an end of a job; use one of {all}"))
        })
    }
}

/// One end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HistoryEntry {
    /// Which job.
    pub id: JobId,
    /// Its place in the order.
    pub seq: i64,
    /// What was to be done.
    pub kind: String,
    /// Where it waited.
    pub queue: String,
    /// How it ended.
    pub outcome: Ending,
    /// The attempt that ended, or how many were spent.
    pub attempt: u32,
    /// When the job was flushed.
    pub created_at: Timestamp,
    /// When the attempt was claimed; `None` = it did not run.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Who ran it; 0 = an external worker.
    pub node: Option<NodeId>,
    /// On whose behalf.
    pub tenant: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
}

/// Which ends. Every part given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryFilter {
    /// Only of this job.
    pub id: Option<JobId>,
    /// Only in this queue.
    pub queue: Option<String>,
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only these.
    pub outcomes: Option<Vec<Ending>>,
    /// Only those whose error contains this text.
    pub error: Option<String>,
    /// Only those of this time.
    pub ended: TimeRange,
    /// The next page: only what comes behind a row with this `ended_at` and `seq`, the last one of the page before.
    pub behind: Option<(Timestamp, i64)>,
}

impl HistoryFilter {
    /// Only of this job.
    #[must_use]
    pub fn id(mut self, id: impl Into<Option<JobId>>) -> Self {
        self.id = id.into();
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

    /// Only these.
    #[must_use]
    pub fn outcomes(mut self, outcomes: impl Into<Option<Vec<Ending>>>) -> Self {
        self.outcomes = outcomes.into();
        self
    }

    /// Only those whose error contains this text.
    #[must_use]
    pub fn error(mut self, error: impl Into<String>) -> Self {
        self.error = Some(error.into());
        self
    }

    /// Only those of this time.
    #[must_use]
    pub fn ended(mut self, ended: TimeRange) -> Self {
        self.ended = ended;
        self
    }

    /// The next page: only what comes behind a row with this `ended_at` and `seq`, the last one of the page before.
    #[must_use]
    pub fn behind(mut self, behind: impl Into<Option<(Timestamp, i64)>>) -> Self {
        self.behind = behind.into();
        self
    }
}

/// What a handler returned.
#[derive(Clone, Debug)]
pub struct JobResult {
    /// Whose.
    pub id: JobId,
    /// The job's kind.
    pub kind: String,
    /// The result, as JSON.
    pub payload: Payload,
    /// When the job committed.
    pub created_at: Timestamp,
    /// Until then it is kept.
    pub expires_at: Timestamp,
}

/// The past of jobs.
#[async_trait]
pub trait History: Send + Sync {
    /// What this store was told to keep, and for how long.
    fn history_config(&self) -> HistoryConfig;

    /// Ends that match, the newest first, at most `limit`. What is kept is decided where a job ends: by
    /// [`HistoryConfig::keep`] of the process that ended it.
    async fn history(&self, filter: &HistoryFilter, limit: usize) -> Result<Vec<HistoryEntry>>;

    /// Forgets at most `limit` ends older than `age`, the oldest first. Returns how many.
    async fn prune_history(&self, age: Duration, limit: usize) -> Result<u64>;

    /// Forgets at most `limit` entries of the audit older than `age`, the oldest first. Returns how many.
    async fn prune_audit(&self, age: Duration, limit: usize) -> Result<u64>;

    /// Removes at most `limit` dead letters that died longer ago than `age`, the oldest first. Returns how many. The history gets no row for it: it
    /// has one of their death.
    async fn prune_dead_letters(&self, age: Duration, limit: usize) -> Result<u64>;

    /// What a job's handler returned, unless it returned nothing, or its time is over.
    async fn result(&self, id: JobId) -> Result<Option<JobResult>>;

    /// Forgets at most `limit` results whose time is over. Returns how many.
    async fn prune_results(&self, limit: usize) -> Result<u64>;
}
