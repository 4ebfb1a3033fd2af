use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::job::{AttemptError, JobId, NodeId, Payload, Terms};

/// Where a job is in its life. Each state but `Running` is a table of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// In `job`, claimable.
    Waiting,
    /// In `blocked_job`: its group or a limit is taken, or what it belongs to is paused.
    Blocked,
    /// In `job`, owned by a node.
    Running,
    /// In `external_job`: in the hands of an external worker.
    External,
    /// In `timer_job`: due later, or between two attempts.
    Timer,
    /// In `suspended_job`.
    Suspended,
    /// In `dead_letter_job`.
    Dead,
}

impl JobState {
    /// All, in the order of a job's life.
    pub const ALL: [Self; 7] =
        [Self::Waiting, Self::Blocked, Self::Running, Self::External, Self::Timer, Self::Suspended, Self::Dead];

    /// The word used in output and filters.
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
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| {
            let all = Self::ALL.map(Self::as_str).join(", ");
            Error::invalid(format!("{text:?} is not a job state; use one of {all}"))
        })
    }
}

/// Which part of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// At most this many.
    pub limit: usize,
    /// Only jobs with a greater `seq`: that of the last row of the page before.
    pub after: Option<i64>,
}

impl Default for Page {
    fn default() -> Self {
        Self { limit: 100, after: None }
    }
}

impl Page {
    /// The first so many.
    pub fn new(limit: usize) -> Self {
        Self { limit, after: None }
    }

    /// At most this many.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Only jobs with a greater `seq`: that of the last row of the page before.
    #[must_use]
    pub fn after(mut self, after: impl Into<Option<i64>>) -> Self {
        self.after = after.into();
        self
    }
}

/// One line about a job.
#[derive(Clone, Debug, Serialize)]
pub struct JobSummary {
    /// Identity.
    pub id: JobId,
    /// Order.
    pub seq: i64,
    /// Where it is in its life.
    pub state: JobState,
    /// What is to be done.
    pub kind: String,
    /// Where it waits.
    pub queue: String,
    /// Higher first.
    pub priority: i16,
    /// Attempts spent, the running one included.
    pub attempt: u32,
    /// Attempts it has.
    pub max_attempts: u32,
    /// When it was flushed.
    pub created_at: Timestamp,
    /// When it may run again (timers only).
    pub due_at: Option<Timestamp>,
    /// Who runs it, and since when.
    pub owner: Option<NodeId>,
    /// When its owner claimed it.
    pub claimed_at: Option<Timestamp>,
    /// The newest error.
    pub last_error: Option<String>,
}

/// Everything about a job.
#[derive(Clone, Debug)]
pub struct JobDetail {
    /// The line about it.
    pub summary: JobSummary,
    /// The current fencing token.
    pub version: i64,
    /// Errors of its attempts, oldest first; the newest ten are kept.
    pub errors: Vec<AttemptError>,
    /// Strings beside the payload.
    pub headers: BTreeMap<String, String>,
    /// What it carries.
    pub payload: Payload,
    /// What it asks for beside a place in its queue.
    pub terms: Terms,
    /// What it waits for, if it is blocked: the key of a group (`g:`), or of a limit by queue (`q:`), kind (`k:`), tenant (`t:`) or limit
    /// key (`l:`).
    pub gate: Option<String>,
    /// When it became a dead letter, and why.
    pub dead: Option<(Timestamp, String)>,
}

/// How many jobs an operation touched, by the state they were in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Steered(pub BTreeMap<JobState, u64>);

impl Steered {
    /// Adds what another step of the same operation touched.
    pub(crate) fn add(&mut self, other: &Self) {
        for (state, count) in &other.0 {
            *self.0.entry(*state).or_default() += count;
        }
    }

    /// Altogether.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

/// How a system stands.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StatusReport {
    /// Queues that hold something.
    pub queues: Vec<QueueStatus>,
    /// Nodes that are alive, or dead and not yet cleared.
    pub nodes: Vec<NodeStatus>,
}

/// Counts of one queue.
#[derive(Clone, Debug, Default, Serialize)]
pub struct QueueStatus {
    /// Its name.
    pub queue: String,
    /// Claimable.
    pub waiting: u64,
    /// Waiting for their group or a limit.
    pub blocked: u64,
    /// Owned.
    pub running: u64,
    /// In the hands of external workers.
    pub external: u64,
    /// Due later.
    pub timer: u64,
    /// Of those, overdue: more than a moment means that no executor promotes timers.
    pub overdue: u64,
    /// Suspended.
    pub suspended: u64,
    /// Dead letters.
    pub dead: u64,
    /// Seconds since the oldest waiting job was flushed.
    pub oldest_waiting_seconds: Option<f64>,
}

/// One node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeStatus {
    /// Its number.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// Where it runs.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// When it started.
    pub started_at: Timestamp,
    /// Seconds until its lease ends; negative = it ended.
    pub lease_seconds_left: f64,
    /// Declared dead; its jobs are being released.
    pub dead: bool,
    /// Jobs it owns.
    pub running: u64,
    /// How it stands with the broker; `None` = it has none.
    pub broker: Option<String>,
}
