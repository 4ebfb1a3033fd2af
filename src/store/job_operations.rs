//! What operators do to jobs, and the audit of it.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::{Hint, JobFilter, JobState, RetryOptions};
use crate::error::{Error, Result};
use crate::job::JobId;

/// How many jobs one transaction changes at most: an operation on a million jobs is many short transactions.
pub(crate) const CHUNK: usize = 5_000;

/// The jobs of one transaction of an action, and their place among all jobs of the action.
pub(crate) struct Chunk {
    pub(crate) filter: JobFilter,
    /// How many jobs come before them.
    pub(crate) before: usize,
    /// How many jobs there are altogether.
    pub(crate) all: usize,
}

impl Chunk {
    /// Returns the filter as one chunk. `None`: the jobs have to be chosen first, because one transaction may not take them all or their places
    /// matter.
    pub(crate) fn whole(filter: &JobFilter, action: &Action) -> Option<Vec<Self>> {
        let few = filter.ids.as_ref().is_some_and(|ids| ids.len() <= CHUNK);
        let counted = matches!(action, Action::Retry { limit, spread } if limit.is_some() || !spread.is_zero());
        (few && !counted).then(|| vec![Self { filter: filter.clone(), before: 0, all: 0 }])
    }

    /// Cuts chosen jobs into chunks of some thousands. Returns one chunk even if there are no jobs, because the audit records the attempt too.
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

    /// Returns whether it is about one job, or none.
    pub(crate) fn is_single(&self) -> bool {
        self.filter.ids.as_ref().is_some_and(|ids| ids.len() <= 1)
    }

    /// Returns its two halves; `None` if it is about one job only.
    pub(crate) fn halves(&self) -> Option<[Self; 2]> {
        let ids = self.filter.ids.as_ref().filter(|ids| ids.len() > 1)?;
        let (first, second) = ids.split_at(ids.len() / 2);
        let part = |ids: &[JobId], before| Self {
            filter: JobFilter { ids: Some(ids.to_vec()), ..self.filter.clone() },
            before,
            all: self.all,
        };
        Some([part(first, self.before), part(second, self.before + first.len())])
    }
}

/// How far ahead a due date may be.
const FARTHEST: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// Longest name of an operator, in bytes.
const NAME_MAX: usize = 200;

/// An action on the jobs that match a filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// Suspends jobs that do not run: waiting, blocked and timer jobs. They keep their due dates and options; an ordered job goes on
    /// holding its group. Jobs that are sent later are not affected; a rule can pause those.
    Suspend,
    /// Makes suspended jobs wait again: for their due date if that is ahead, or else to run.
    Resume,
    /// Makes timers and suspended jobs wait to run at once.
    RunNow,
    /// Changes jobs that are not running.
    Change(Change),
    /// Makes dead letters and timers wait again: see [`Admin::retry`](crate::admin::Admin::retry).
    Retry {
        /// See [`RetryOptions::limit`].
        limit: Option<u64>,
        /// See [`RetryOptions::spread`].
        spread: Duration,
    },
    /// Removes live jobs, running ones too. Their handlers are asked to stop, and what they did is not committed.
    Cancel,
    /// Removes jobs for good, dead letters too. Leaves running and external ones alone.
    Delete,
}

impl Action {
    /// Returns the word used in output, commands and the audit.
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

    /// Returns the states in which the action applies to a job.
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

    /// Returns what executors are told after the action.
    pub(crate) const fn hint(&self) -> Hint {
        match self {
            // What removed jobs held, others may wait for.
            Self::Suspend | Self::Cancel | Self::Delete => Hint::Admission,
            Self::Resume | Self::RunNow | Self::Change(_) | Self::Retry { .. } => Hint::Any,
        }
    }

    /// Returns the options of a retry; `None` for other actions.
    pub(crate) fn retry(&self, dry_run: bool) -> Option<RetryOptions> {
        match *self {
            Self::Retry { limit, spread } => Some(RetryOptions { dry_run, limit, spread }),
            _ => None,
        }
    }

    /// Checks the action.
    ///
    /// # Errors
    /// When the action is invalid; the error says why and what to write instead.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Change(change) => change.check(),
            _ => Ok(()),
        }
    }
}

/// A new due date of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DueChange {
    /// At this time.
    At(Timestamp),
    /// This long from now, by the database's clock. At most a hundred years.
    In(Duration),
}

/// Changes to jobs. What is not given stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// The new priority: higher first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub priority: Option<i16>,
    /// The new due date. A waiting job becomes a timer if it is ahead; a dead letter has no due date and gets none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub due: Option<DueChange>,
    /// The new queue. The job's permits of limits are released, and it has to be admitted again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub queue: Option<String>,
    /// The new number of attempts before the job is a dead letter, spent ones included. 1 to 1,000,000,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub max_attempts: Option<u32>,
}

impl Change {
    /// Changes the priority: higher first.
    #[must_use]
    pub fn priority(mut self, priority: i16) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Changes the due date. A waiting job becomes a timer if it is ahead; a dead letter has no due date and gets none.
    #[must_use]
    pub fn due(mut self, due: DueChange) -> Self {
        self.due = Some(due);
        self
    }

    /// Changes the queue. The job's permits of limits are released, and it has to be admitted again.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Changes the number of attempts before the job is a dead letter, spent ones included. 1 to 1,000,000,000.
    #[must_use]
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = Some(max_attempts);
        self
    }

    /// Returns whether a waiting job has to be moved for it.
    pub(crate) fn moves(&self) -> bool {
        self.due.is_some() || self.queue.is_some()
    }

    /// Returns whether it changes only the due date, which a dead letter does not have.
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
            Some(DueChange::In(delay)) => delay > FARTHEST,
            Some(DueChange::At(at)) => Timestamp::now().checked_add(FARTHEST).is_ok_and(|farthest| at > farthest),
            None => false,
        };
        if far { refuse("it would be due in more than 100 years".into()) } else { Ok(()) }
    }
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

/// Returns what the audit records of an action on jobs.
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

/// A note for the audit about an operation, written in the transaction of the operation.
#[derive(Clone, Debug)]
pub struct AuditNote<'a> {
    /// The operator's name. 1 to 200 bytes.
    pub by: &'a str,
    /// The word for what is done.
    pub action: &'static str,
    /// What it is done to.
    pub what: serde_json::Value,
    /// The number of the entry, once it is written. Later transactions of the same action add to that entry.
    pub entry: Option<i64>,
    /// How many jobs the operation has sent so far.
    pub sent: u64,
}

impl<'a> AuditNote<'a> {
    /// Creates a note; `None` if no operator is named.
    ///
    /// # Errors
    /// When the name is empty, too long, or has control characters.
    pub fn new(by: Option<&'a str>, action: &'static str, what: serde_json::Value) -> Result<Option<Self>> {
        check_name(by)?;
        Ok(by.map(|by| Self { by, action, what, entry: None, sent: 0 }))
    }

    /// Returns what the entry says about jobs.
    pub(crate) fn counts(&self) -> serde_json::Value {
        if self.sent == 0 { serde_json::json!({}) } else { serde_json::json!({ "sent": self.sent }) }
    }
}

/// An entry of the audit: one action of an operator.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AuditEntry {
    /// Its number; higher is later.
    pub id: i64,
    /// When it was done, by the database's clock.
    pub at: Timestamp,
    /// The operator's name.
    pub who: String,
    /// What was done: the word of an [`Action`], `rule`, `evict`, or `put-`, `pause-`, `resume-`, `delete-`, `run-`,
    /// `backfill-schedule`.
    pub action: String,
    /// What it was done to: a filter and a change, a rule, a node, or a schedule.
    pub what: serde_json::Value,
    /// How many jobs it affected, by the state they were in; or `sent`, how many it sent.
    pub counts: serde_json::Value,
}

/// A filter of the audit. Every condition given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditFilter {
    /// Only entries of this operator.
    #[doc(hidden)]
    pub who: Option<String>,
    /// Only entries of this action.
    #[doc(hidden)]
    pub action: Option<String>,
    /// Only entries older than the one with this number: the last entry of the page before.
    #[doc(hidden)]
    pub before: Option<i64>,
}

impl AuditFilter {
    /// Matches only entries of this operator.
    #[must_use]
    pub fn who(mut self, who: impl Into<String>) -> Self {
        self.who = Some(who.into());
        self
    }

    /// Matches only entries of this action.
    #[must_use]
    pub fn action(mut self, action: impl Into<String>) -> Self {
        self.action = Some(action.into());
        self
    }

    /// Asks for the next page: give the number of the last entry of the page before.
    #[must_use]
    pub fn before(mut self, before: i64) -> Self {
        self.before = Some(before);
        self
    }
}
