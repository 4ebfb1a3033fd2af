//! The history of jobs that ended, and their results.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::TimeRange;
use crate::error::{Error, Result};
use crate::job::{JobId, NodeId, Payload};

/// How a job, or an attempt of it, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum HistoryOutcome {
    /// It succeeded.
    Done,
    /// The attempt failed, and another one follows.
    Failed,
    /// The node that ran it was lost, or its external worker did not answer in time; another attempt follows.
    Lost,
    /// It became a dead letter.
    Dead,
    /// It became a dead letter because its time to live was over before it started.
    Expired,
    /// Its handler or an operator cancelled it.
    Cancelled,
    /// An operator removed it for good.
    Deleted,
}

impl HistoryOutcome {
    /// All outcomes.
    pub const ALL: &'static [Self] =
        &[Self::Done, Self::Failed, Self::Lost, Self::Dead, Self::Expired, Self::Cancelled, Self::Deleted];

    /// Returns the word used in output and filters.
    #[doc(hidden)]
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

    /// Returns whether something went wrong. [`Keep::Failed`](crate::config::Keep::Failed) keeps only these outcomes.
    #[doc(hidden)]
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Lost | Self::Dead | Self::Expired)
    }
}

impl fmt::Display for HistoryOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for HistoryOutcome {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.iter().copied().find(|ending| ending.as_str() == text).ok_or_else(|| {
            let all = Self::ALL.iter().map(|one| one.as_str()).collect::<Vec<_>>().join(", ");
            Error::invalid(format!("unknown outcome {text:?}; use one of {all}"))
        })
    }
}

/// The end of a job or an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// The job's id.
    pub id: JobId,
    /// The job's number in the order of jobs.
    pub seq: i64,
    /// The job's kind.
    pub kind: String,
    /// The job's queue.
    pub queue: String,
    /// How it ended.
    pub outcome: HistoryOutcome,
    /// The number of the attempt that ended, or how many attempts were spent.
    pub attempt: u32,
    /// When the job was flushed.
    pub created_at: Timestamp,
    /// When the attempt was claimed; `None` = it did not run.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Timestamp,
    /// The node that ran it; 0 = an external worker.
    pub node: Option<NodeId>,
    /// The tenant on whose behalf it ran.
    pub tenant: Option<String>,
    /// The error, if there was one.
    pub error: Option<String>,
}

/// A filter of the history. Every condition given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryFilter {
    /// Only entries of this job.
    #[doc(hidden)]
    pub id: Option<JobId>,
    /// Only entries of this queue.
    #[doc(hidden)]
    pub queue: Option<String>,
    /// Only entries of this kind.
    #[doc(hidden)]
    pub kind: Option<String>,
    /// Only entries with one of these outcomes.
    #[doc(hidden)]
    pub outcomes: Option<Vec<HistoryOutcome>>,
    /// Only entries whose error contains this text.
    #[doc(hidden)]
    pub error: Option<String>,
    /// Only entries that ended in this time.
    #[doc(hidden)]
    pub ended: TimeRange,
    /// Only entries that follow one with this `ended_at` and `seq` in the list: the last entry of the page before.
    #[doc(hidden)]
    pub behind: Option<(Timestamp, i64)>,
}

impl HistoryFilter {
    /// Matches only entries of this job.
    #[must_use]
    pub fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }

    /// Matches only entries of this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Matches only entries of this kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Matches only entries with one of these outcomes.
    #[must_use]
    pub fn outcomes(mut self, outcomes: Vec<HistoryOutcome>) -> Self {
        self.outcomes = Some(outcomes);
        self
    }

    /// Matches only entries whose error contains this text.
    #[must_use]
    pub fn error(mut self, error: impl Into<String>) -> Self {
        self.error = Some(error.into());
        self
    }

    /// Matches only entries that ended in this time.
    #[must_use]
    pub fn ended(mut self, ended: TimeRange) -> Self {
        self.ended = ended;
        self
    }

    /// Asks for the next page: give `ended_at` and `seq` of the last entry of the page before.
    #[must_use]
    pub fn behind(mut self, behind: (Timestamp, i64)) -> Self {
        self.behind = Some(behind);
        self
    }
}

/// The result of a job's handler.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JobResult {
    /// The job's id.
    pub id: JobId,
    /// The job's kind.
    pub kind: String,
    /// The result, as JSON.
    pub payload: Payload,
    /// When the job was committed.
    pub created_at: Timestamp,
    /// Until when the result is kept.
    pub expires_at: Timestamp,
}
