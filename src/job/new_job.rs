use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::validate::Limits;
use super::{JobId, Payload, RetryPolicy, Terms, Unique};
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
    pub(crate) terms: Terms,
    pub(crate) unique: Option<Unique>,
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
            terms: Terms::default(),
            unique: None,
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

    /// Puts it into an exclusive group: no two jobs of one group run at the same time, on any node, in any queue and with any kind of
    /// store or broker. They start in the order they were sent (higher priority first), as long as none fails; one that waits for
    /// its next attempt lets others pass. 1 to 200 bytes. What jBPM calls exclusive and JMS `JMSXGroupID`.
    pub fn exclusive(mut self, group: impl Into<String>) -> Self {
        self.terms.group = Some(group.into());
        self
    }

    /// The same, in strict order: if it fails, the group waits until it has succeeded, or was deleted or cancelled, whatever time that
    /// takes. So a dead letter holds its group.
    pub fn ordered(mut self, group: impl Into<String>) -> Self {
        self.terms.ordered = true;
        self.exclusive(group)
    }

    /// On whose behalf it runs. Limits and shares may go by it. 1 to 200 bytes.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.terms.tenant = Some(tenant.into());
        self
    }

    /// A name of your own that limits may go by: a printer, an account at a service. 1 to 200 bytes.
    pub fn limit_key(mut self, key: impl Into<String>) -> Self {
        self.terms.limit_key = Some(key.into());
        self
    }

    /// How long after its flush it may still start, by the database's clock; then it is removed, and that is recorded. 1 ms to 100
    /// years. A delayed job must be due before.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.terms.ttl = Some(ttl);
        self
    }

    /// Delays between the attempts of this job, instead of those of its kind.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.terms.retry = Some(policy);
        self
    }

    /// Keeps it from being there twice: see [`Unique`].
    pub fn unique(mut self, unique: Unique) -> Self {
        self.unique = Some(unique);
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

    /// What it asks for beside a place in its queue.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The payload, unless it could not be serialised.
    pub fn payload(&self) -> Option<&Payload> {
        self.payload.as_ref().ok()
    }

    /// Strings beside the payload.
    pub fn headers(&self) -> &BTreeMap<String, String> {
        &self.headers
    }

    /// Checks everything that can be checked before the database sees it.
    pub(crate) fn validate(self, limits: Limits) -> Result<JobMessage, Error> {
        limits.check(&self)?;
        let unique = self.unique.as_ref().map(|unique| unique.term(&self, super::validate::DUE_MAX)).transpose()?;
        let Self { id, id_given, kind, queue, priority, max_attempts, due, payload, headers, terms, .. } = self;
        let terms = Terms { unique, ..terms };
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
            terms,
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
    /// What it asks for beside a place in its queue.
    pub terms: Terms,
    /// How long after the flush it is kept back from claims of the table, because a broker delivers it: a head start for the
    /// delivery, which needs no repair when that gets lost. Zero, unless a service that publishes sets it; at most [`LONGEST_HOLD`](crate::store::LONGEST_HOLD).
    pub hold: Duration,
}

impl JobMessage {
    /// Whether it has to be admitted before it can start, however much is free: nobody can take it straight from the flush.
    pub fn is_blocked_at_first(&self) -> bool {
        self.terms.group.is_some()
    }
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
