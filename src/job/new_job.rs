use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::validate::Limits;
use super::{JobId, Payload};
use crate::error::Error;

/// Default queue.
pub const DEFAULT_QUEUE: &str = "default";
/// Attempts a job has unless it or its kind says otherwise.
pub const DEFAULT_MAX_ATTEMPTS: u32 = 10;

/// When a job may first run. The database's clock decides, never the sender's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Due {
    /// As soon as its transaction has committed.
    #[default]
    Now,
    /// This long after it was flushed.
    In(Duration),
    /// Not before this moment.
    At(Timestamp),
}

/// A job message before it is sent: a value, built first and given to
/// [`Context::send`](crate::Context::send), which checks it.
///
/// ```
/// use jobwright::NewJob;
/// use std::time::Duration;
///
/// let job = NewJob::json("send-invoice", &serde_json::json!({ "order": 42 }))
///     .queue("billing")
///     .priority(5)
///     .delay(Duration::from_secs(10))
///     .header("tenant", "acme");
/// assert_eq!(job.kind(), "send-invoice");
/// ```
#[derive(Clone, Debug)]
#[must_use = "a job does nothing until it is sent"]
pub struct NewJob {
    pub(crate) id: JobId,
    pub(crate) id_given: bool,
    pub(crate) kind: String,
    pub(crate) queue: String,
    pub(crate) priority: i16,
    pub(crate) max_attempts: u32,
    pub(crate) due: Due,
    pub(crate) payload: Result<Payload, String>,
    pub(crate) headers: BTreeMap<String, String>,
}

impl NewJob {
    /// A job with this payload.
    pub fn new(kind: impl Into<String>, payload: Payload) -> Self {
        Self::with_payload(kind.into(), Ok(payload))
    }

    /// A job whose payload is `value` as JSON. If it can't be serialised, [`Context::send`](crate::Context::send) says so.
    pub fn json<T: Serialize + ?Sized>(kind: impl Into<String>, value: &T) -> Self {
        Self::with_payload(kind.into(), Payload::json(value).map_err(|e| e.to_string()))
    }

    fn with_payload(kind: String, payload: Result<Payload, String>) -> Self {
        Self {
            id: JobId::new(),
            id_given: false,
            kind,
            queue: DEFAULT_QUEUE.to_owned(),
            priority: 0,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            due: Due::Now,
            payload,
            headers: BTreeMap::new(),
        }
    }

    /// Names the job, which makes the send idempotent: while a job of this id exists in any state, sending it again changes
    /// nothing.
    pub fn id(mut self, id: JobId) -> Self {
        self.id = id;
        self.id_given = true;
        self
    }

    /// The queue it waits in. 1 to 100 bytes; default `default`.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = queue.into();
        self
    }

    /// Higher runs first within its queue. From -32,767 to 32,767; default 0.
    pub fn priority(mut self, priority: i16) -> Self {
        self.priority = priority;
        self
    }

    /// How often it is tried before it becomes a dead letter. At least 1; default [`DEFAULT_MAX_ATTEMPTS`].
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// Runs not before `delay` after the flush, by the database's clock.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.due = Due::In(delay);
        self
    }

    /// Runs not before `at`, by the database's clock.
    pub fn at(mut self, at: Timestamp) -> Self {
        self.due = Due::At(at);
        self
    }

    /// Adds a header: a string that travels with the job beside its payload.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// The job's id.
    pub fn job_id(&self) -> JobId {
        self.id
    }

    /// The job's kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The queue it will wait in.
    pub fn queue_name(&self) -> &str {
        &self.queue
    }

    /// The payload, unless it could not be serialised.
    pub fn payload(&self) -> Option<&Payload> {
        self.payload.as_ref().ok()
    }

    /// Checks everything that can be checked before the database sees it.
    pub(crate) fn validate(self, limits: Limits) -> Result<JobMessage, Error> {
        limits.check(&self)?;
        let Self { id, id_given, kind, queue, priority, max_attempts, due, payload, headers } = self;
        let payload = payload.map_err(Error::invalid)?;
        Ok(JobMessage {
            id,
            id_given,
            kind,
            queue,
            priority,
            max_attempts,
            due,
            payload,
            headers,
            hold: Duration::ZERO,
        })
    }
}

/// A checked job message: what a context has collected and its commit will flush. Only
/// [`Context::send`](crate::Context::send) makes one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JobMessage {
    /// Identity.
    pub id: JobId,
    /// The sender chose the id, so it may exist already.
    pub id_given: bool,
    /// What is to be done.
    pub kind: String,
    /// Where it waits.
    pub queue: String,
    /// Higher first.
    pub priority: i16,
    /// Tries before it is a dead letter.
    pub max_attempts: u32,
    /// When it may run.
    pub due: Due,
    /// What it carries.
    pub payload: Payload,
    /// Strings beside the payload.
    pub headers: BTreeMap<String, String>,
    /// How long after the flush it is kept back from claims of the table, because a broker delivers it: a head start for the
    /// delivery, which needs no repair when that gets lost. Zero, unless a service that publishes sets it.
    pub hold: Duration,
}

/// A job message that a foreign producer sent, and what tells whether another one is the same.
#[derive(Clone, Debug)]
pub struct Submission {
    /// What to store. Its id is the sender's.
    pub message: JobMessage,
    /// SHA-256 over everything that makes the message what it is.
    pub digest: [u8; 32],
}

/// What can be sent: a [`NewJob`], or a command (`S` is the store its handler runs on).
pub trait IntoJob<S> {
    /// The job message, not yet checked.
    fn into_job(self) -> NewJob;
}

impl<S> IntoJob<S> for NewJob {
    fn into_job(self) -> NewJob {
        self
    }
}
