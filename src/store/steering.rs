//! What operators do to jobs, and who did it.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;

use super::{JobFilter, JobState, RetryOptions, Steered};
use crate::error::{Error, Result};
use crate::job::{Fence, JobId, NodeId};

/// How many jobs one transaction takes: what is to be done to a million is done in many short ones.
pub(crate) const CHUNK: usize = 5_000;

/// One transaction of an action: which jobs, and where they stand among all that are meant.
pub(crate) struct Part {
    pub(crate) filter: JobFilter,
    /// So many come before them,
    pub(crate) before: usize,
    /// of so many.
    pub(crate) all: usize,
}

impl Part {
    /// `None`: there may be more of them than one transaction takes, or their places matter, so they have to be chosen first.
    pub(crate) fn whole(filter: &JobFilter, action: &Action) -> Option<Vec<Self>> {
        let few = filter.ids.as_ref().is_some_and(|ids| ids.len() <= CHUNK);
        let counted = matches!(action, Action::Retry { limit, spread } if limit.is_some() || !spread.is_zero());
        (few && !counted).then(|| vec![Self { filter: filter.clone(), before: 0, all: 0 }])
    }

    /// Chosen jobs, some thousands at a time. One part even if there are none: that somebody tried is in the audit too.
    pub(crate) fn cut(filter: &JobFilter, ids: &[JobId]) -> Vec<Self> {
        let mut chunks: Vec<&[JobId]> = ids.chunks(CHUNK).collect();
        chunks.resize(chunks.len().max(1), &[]);
        let all = ids.len();
        let part = |(place, ids): (usize, &[JobId])| Self {
            filter: JobFilter { ids: Some(ids.to_vec()), ..filter.clone() },
            before: place * CHUNK,
            all,
        };
        chunks.into_iter().enumerate().map(part).collect()
    }
}

/// How long ahead a due date may be.
const FARTHEST: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// Longest name of an operator, in bytes.
const NAME_MAX: usize = 200;

/// What can be done to the jobs that a filter means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// Sets aside what does not run: waiting, blocked and timer jobs. They keep their due dates and terms; an ordered job goes on
    /// holding its group. What is sent later is not concerned; for that there are rules that pause.
    Suspend,
    /// Makes suspended jobs wait again: for their due date if that is ahead, else to be run.
    Resume,
    /// Makes timers and suspended jobs wait to be run at once.
    RunNow,
    /// Changes jobs that do not run.
    Change(Change),
    /// Makes dead letters and timers wait again: see [`JobStore::retry`](super::JobStore::retry).
    Retry {
        /// See [`RetryOptions::limit`].
        limit: Option<u64>,
        /// See [`RetryOptions::spread`].
        spread: Duration,
    },
    /// Removes live jobs, running ones too: their handlers are told to stop, and what they did is not committed.
    Cancel,
    /// Removes jobs for good, dead letters too; running ones are left alone.
    Delete,
}

impl Action {
    /// The word used in output, commands and the audit.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::RunNow => "run",
            Self::Change(_) => "change",
            Self::Retry { .. } => "retry",
            Self::Cancel => "cancel",
            Self::Delete => "delete",
        }
    }

    /// The states in which a job can be steered so.
    pub const fn states(&self) -> &'static [JobState] {
        use JobState::{Blocked, Dead, External, Running, Suspended, Timer, Waiting};
        match self {
            Self::Suspend => &[Waiting, Blocked, Timer],
            Self::Resume => &[Suspended],
            Self::RunNow => &[Timer, Suspended],
            Self::Change(change) if change.only_due() => &[Waiting, Blocked, Timer, Suspended],
            Self::Change(_) | Self::Delete => &[Waiting, Blocked, Timer, Suspended, Dead],
            Self::Retry { .. } => &[Timer, Dead],
            Self::Cancel => &[Waiting, Blocked, Running, External, Timer, Suspended],
        }
    }

    /// What a retry asks for.
    pub(crate) fn retry(&self, dry_run: bool) -> Option<RetryOptions> {
        match *self {
            Self::Retry { limit, spread } => Some(RetryOptions { dry_run, limit, spread }),
            _ => None,
        }
    }

    /// Checks what it asks for.
    ///
    /// # Errors
    /// With what is wrong and what to write.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Change(change) => change.check(),
            _ => Ok(()),
        }
    }
}

/// When a job is to be due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Due {
    /// At this moment.
    At(Timestamp),
    /// So long from now, by the database's clock. At most a hundred years.
    In(Duration),
}

/// What to change about jobs. What is not given stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// Higher first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i16>,
    /// When to run, not before. A waiting job becomes a timer if that is ahead; a dead letter has no due date and keeps having none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<Due>,
    /// Where to wait. What the job held under limits is freed; it is admitted anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Attempts before it is a dead letter, those that were spent included. 1 to 1,000,000,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
}

impl Change {
    /// Higher first.
    #[must_use]
    pub fn priority(mut self, priority: impl Into<Option<i16>>) -> Self {
        self.priority = priority.into();
        self
    }

    /// When to run, not before. A waiting job becomes a timer if that is ahead; a dead letter has no due date and keeps having none.
    #[must_use]
    pub fn due(mut self, due: impl Into<Option<Due>>) -> Self {
        self.due = due.into();
        self
    }

    /// Where to wait. What the job held under limits is freed; it is admitted anew.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Attempts before it is a dead letter, those that were spent included. 1 to 1,000,000,000.
    #[must_use]
    pub fn max_attempts(mut self, max_attempts: impl Into<Option<u32>>) -> Self {
        self.max_attempts = max_attempts.into();
        self
    }

    /// Whether a waiting job has to move for it.
    pub(crate) fn moves(&self) -> bool {
        self.due.is_some() || self.queue.is_some()
    }

    /// Whether a dead letter has nothing to do with it.
    const fn only_due(&self) -> bool {
        self.priority.is_none() && self.queue.is_none() && self.max_attempts.is_none()
    }

    fn check(&self) -> Result<()> {
        let refuse = |why: String| Err(Error::invalid(format!("the change of jobs is refused: {why}")));
        if *self == Self::default() {
            return refuse("it changes nothing; give a priority, a due date, a queue or a number of attempts".into());
        }
        if let Some(priority @ i16::MIN) = self.priority {
            return refuse(format!("the priority is {priority}; use -32767 to 32767"));
        }
        if let Some(queue) = &self.queue
            && (queue.is_empty() || queue.len() > 100 || queue.chars().any(char::is_control) || queue.trim() != queue)
        {
            return refuse(format!(
                "the queue {queue:?} is empty, longer than 100 bytes, or has control characters or outer blanks"
            ));
        }
        if let Some(attempts) = self.max_attempts.filter(|n| !(1..=1_000_000_000).contains(n)) {
            return refuse(format!("max_attempts is {attempts}; use 1 to 1000000000"));
        }
        let far = match self.due {
            Some(Due::In(delay)) => delay > FARTHEST,
            Some(Due::At(at)) => Timestamp::now().checked_add(FARTHEST).is_ok_and(|farthest| at > farthest),
            None => false,
        };
        if far { refuse("it would be due in more than 100 years".into()) } else { Ok(()) }
    }
}

/// Who orders something, and whether it is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order<'a> {
    /// Only count.
    pub dry_run: bool,
    /// The operator's name, for the audit; `None` = nobody is to be remembered. At most 200 bytes.
    pub by: Option<&'a str>,
}

impl Order<'_> {
    /// Only counts.
    pub const DRY_RUN: Self = Self { dry_run: true, by: None };
    /// Does it, without an entry in the audit.
    pub const UNNAMED: Self = Self { dry_run: false, by: None };
}

/// Checks the name of an operator.
pub(crate) fn check_name(by: Option<&str>) -> Result<()> {
    match by {
        Some(name) if name.trim().is_empty() || name.len() > NAME_MAX || name.chars().any(char::is_control) => {
            Err(Error::invalid(format!(
                "the operator's name {name:?} is empty, longer than {NAME_MAX} bytes, or has control characters"
            )))
        }
        _ => Ok(()),
    }
}

/// What the audit keeps of an action on jobs.
pub(crate) fn what(filter: &JobFilter, action: &Action) -> serde_json::Value {
    let mut what = serde_json::json!({ "filter": filter });
    match action {
        Action::Change(change) => what["change"] = serde_json::json!(change),
        Action::Retry { limit, spread } => {
            what["limit"] = serde_json::json!(limit);
            what["spread_seconds"] = serde_json::json!(spread.as_secs_f64());
        }
        _ => {}
    }
    what
}

/// What the audit is to keep of something an operator does, written in the transaction that does it.
#[derive(Clone, Debug)]
pub struct Note<'a> {
    /// Who. 1 to 200 bytes.
    pub by: &'a str,
    /// What is done, in a word.
    pub action: &'static str,
    /// To what.
    pub what: serde_json::Value,
    /// The number of the entry, once it is written: later transactions of the same action add to it.
    pub entry: Option<i64>,
    /// Jobs it has sent so far.
    pub sent: u64,
}

impl<'a> Note<'a> {
    /// One that is to be written, if somebody is named.
    ///
    /// # Errors
    /// When the name is empty, too long, or has control characters.
    pub fn new(by: Option<&'a str>, action: &'static str, what: serde_json::Value) -> Result<Option<Self>> {
        check_name(by)?;
        Ok(by.map(|by| Self { by, action, what, entry: None, sent: 0 }))
    }

    /// What its entry says of jobs.
    pub(crate) fn counts(&self) -> serde_json::Value {
        if self.sent == 0 { serde_json::json!({}) } else { serde_json::json!({ "sent": self.sent }) }
    }
}

/// One action of an operator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AuditEntry {
    /// Its number; higher is later.
    pub id: i64,
    /// When, by the database's clock.
    pub at: Timestamp,
    /// Who.
    pub who: String,
    /// What was done: the word of an [`Action`], `rule`, `condemn`, or `put-`, `pause-`, `resume-`, `delete-`, `run-`,
    /// `backfill-schedule`.
    pub action: String,
    /// To what: a filter and a change, a rule, a node, or a schedule.
    pub what: serde_json::Value,
    /// How many jobs that touched, by the state they were in; or `sent`.
    pub counts: serde_json::Value,
}

/// Which entries of the audit. Every part given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditFilter {
    /// Only of this operator.
    pub who: Option<String>,
    /// Only of this action.
    pub action: Option<String>,
    /// Only those before this one: for the next page.
    pub before: Option<i64>,
}

impl AuditFilter {
    /// Only of this operator.
    #[must_use]
    pub fn who(mut self, who: impl Into<String>) -> Self {
        self.who = Some(who.into());
        self
    }

    /// Only of this action.
    #[must_use]
    pub fn action(mut self, action: impl Into<String>) -> Self {
        self.action = Some(action.into());
        self
    }

    /// Only those before this one: for the next page.
    #[must_use]
    pub fn before(mut self, before: impl Into<Option<i64>>) -> Self {
        self.before = before.into();
        self
    }
}

/// What operators do.
#[async_trait]
pub trait Steering: Send + Sync {
    /// Does something to the jobs that match, in the order they were sent, some thousands in a transaction; the audit entry, if there is
    /// to be one, is written with them. A job that starts, ends or moves in between is left out, as is what is sent meanwhile. If it fails
    /// half-way, what was done stays and is in the audit; the same call may be made again. Who has executors in
    /// the same process wakes them by `Admin`.
    ///
    /// # Errors
    /// When the action makes no sense; then nothing changed.
    async fn steer(&self, filter: &JobFilter, action: &Action, order: Order<'_>) -> Result<Steered>;

    /// Which of these claims of a node are no longer current: their jobs were cancelled, or released to somebody else.
    async fn gone(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<Fence>>;

    /// Declares a node dead by hand, waits for claims of it that are still under way, and releases what it owns as the lock monitor does:
    /// each job at the cost of its attempt. Returns how many jobs were released; `None` = there is no such node.
    async fn condemn(&self, node: NodeId, by: Option<&str>) -> Result<Option<super::Released>>;

    /// What operators did, the newest first.
    async fn audit(&self, filter: &AuditFilter, limit: usize) -> Result<Vec<AuditEntry>>;
}
