use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::job::{AttemptError, JobId, JobOptions, NodeId, Payload};

/// The state of a job. On SQLite it is a column; on PostgreSQL each state is a table of its own, except `Running` and `Blocked`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum JobState {
    /// In `job`, claimable.
    Waiting,
    /// Blocked on a key: its group or a limit is taken, or a rule pauses it. In `job`.
    Blocked,
    /// In `job`, owned by a node.
    Running,
    /// In `external_job`: handed out to an external worker.
    External,
    /// In `timer_job`: due later, or between two attempts.
    Timer,
    /// In `suspended_job`.
    Suspended,
    /// In `dead_letter_job`.
    Dead,
}

impl JobState {
    /// All states, in the order of a job's life.
    pub const ALL: &'static [Self] =
        &[Self::Waiting, Self::Blocked, Self::Running, Self::External, Self::Timer, Self::Suspended, Self::Dead];

    /// Returns the word used in output and filters.
    #[doc(hidden)]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Blocked => "blocked",
            Self::Running => "running",
            Self::External => "external",
            Self::Timer => "timer",
            Self::Suspended => "suspended",
            Self::Dead => "dead",
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for JobState {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.iter().copied().find(|state| state.as_str() == text).ok_or_else(|| {
            let all = Self::ALL.iter().map(|one| one.as_str()).collect::<Vec<_>>().join(", ");
            Error::invalid(format!("{text:?} is not a job state; use one of {all}"))
        })
    }
}

/// One page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// How many jobs it has at most.
    #[doc(hidden)]
    pub limit: usize,
    /// The `seq` of the last job of the page before: only jobs after it are listed.
    #[doc(hidden)]
    pub after: Option<i64>,
}

impl Default for Page {
    fn default() -> Self {
        Self { limit: 100, after: None }
    }
}

impl Page {
    /// Lists the first `limit` jobs.
    pub fn new(limit: usize) -> Self {
        Self { limit, after: None }
    }

    /// Lists at most this many jobs.
    #[must_use]
    #[doc(hidden)]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Lists only jobs with a greater `seq`: give that of the last job of the page before.
    #[must_use]
    pub fn after(mut self, after: i64) -> Self {
        self.after = Some(after);
        self
    }
}

/// A summary of a job, as in a list.
#[derive(Clone, Debug, Serialize)]
pub struct JobSummary {
    /// Its id.
    pub id: JobId,
    /// Its number in the order of jobs.
    pub seq: i64,
    /// Its state.
    pub state: JobState,
    /// Its kind.
    pub kind: String,
    /// Its queue.
    pub queue: String,
    /// Its priority: higher first.
    pub priority: i16,
    /// Attempts spent, the running one included.
    pub attempt: u32,
    /// How many attempts it has altogether.
    pub max_attempts: u32,
    /// When it was flushed.
    pub created_at: Timestamp,
    /// When it may run again (timers only).
    pub due_at: Option<Timestamp>,
    /// The node that runs it.
    pub owner: Option<NodeId>,
    /// When its owner claimed it.
    pub claimed_at: Option<Timestamp>,
    /// The newest error.
    pub last_error: Option<String>,
}

/// Everything about a job.
#[derive(Clone, Debug)]
pub struct JobDetail {
    /// Its summary.
    pub summary: JobSummary,
    /// The current fencing token.
    #[doc(hidden)]
    pub version: i64,
    /// Errors of its attempts, oldest first; the newest ten are kept.
    pub errors: Vec<AttemptError>,
    /// Its headers.
    pub headers: BTreeMap<String, String>,
    /// Its payload.
    pub payload: Payload,
    /// Its options, such as group, tenant and time to live.
    pub options: JobOptions,
    /// The key it is blocked on, if it is: of a group (`g:`), or of a limit by queue (`q:`), kind (`k:`), tenant (`t:`) or limit key (`l:`).
    /// `alone`: its process died while it ran, and it waits for a node that runs nothing else.
    pub blocked_on: Option<String>,
    /// When it became a dead letter, and why.
    pub dead: Option<(Timestamp, String)>,
}

/// How many jobs an operation affected, by the state they were in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AffectedJobs(pub BTreeMap<JobState, u64>);

impl AffectedJobs {
    /// Adds the jobs that another step of the same operation affected.
    pub(crate) fn add(&mut self, other: &Self) {
        for (state, count) in &other.0 {
            *self.0.entry(*state).or_default() += count;
        }
    }

    /// Returns how many jobs it affected in all states.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }
}
