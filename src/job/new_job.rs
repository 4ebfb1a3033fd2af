//! Jobs before they are sent, and as they are written.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::{Due, JobId, JobOptions, Payload, RetryPolicy, Unique, UniqueOptions};

/// Default queue.
pub const DEFAULT_QUEUE: &str = "default";
/// Attempts of a job, unless the job or its kind says otherwise.
pub const DEFAULT_MAX_ATTEMPTS: u32 = 10;

/// A job message before it is sent. Build it first, then pass it to [`Context::send`](crate::Context::send), which checks it.
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
///
/// All that it holds can be read again, by a [send hook](crate::MessageServices::on_send) for example. Where the plain name sets the value, the name that
/// reads it begins with `job_`:
///
/// ```
/// # use jobwright::{Due, NewJob};
/// let job = NewJob::json("send-invoice", &42).queue("billing").priority(5);
/// assert_eq!((job.job_queue(), job.job_priority(), job.job_max_attempts()), ("billing", 5, 10));
/// assert_eq!((job.due(), job.is_id_given()), (Due::Now, false));
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
    pub(crate) options: JobOptions,
    pub(crate) unique: Option<Unique>,
}

impl NewJob {
    /// Creates a job with this payload.
    pub fn new(kind: impl Into<String>, payload: Payload) -> Self {
        Self::with_payload(kind.into(), Ok(payload))
    }

    /// Creates a job whose payload is `value` as JSON. If it can't be serialised, [`Context::send`](crate::Context::send) returns the
    /// error.
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
            options: JobOptions::default(),
            unique: None,
        }
    }

    /// Sets the job's id, which makes the send idempotent: while a job of this id exists in any state, sending it again changes nothing.
    pub fn id(mut self, id: JobId) -> Self {
        self.id = id;
        self.id_given = true;
        self
    }

    /// Sets the queue in which it waits. 1 to 100 bytes; default `default`.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = queue.into();
        self
    }

    /// Sets the priority; higher runs first within its queue. From -32,767 to 32,767; default 0.
    pub fn priority(mut self, priority: i16) -> Self {
        self.priority = priority;
        self
    }

    /// Sets how many attempts it has before it becomes a dead letter. At least 1; default [`DEFAULT_MAX_ATTEMPTS`].
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// Delays its start until `delay` after the flush, by the database's clock.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.due = Due::In(delay);
        self
    }

    /// Delays its start until `at`, by the database's clock.
    pub fn at(mut self, at: Timestamp) -> Self {
        self.due = Due::At(at);
        self
    }

    /// Adds a header: a string that travels with the job beside its payload.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Puts it into an exclusive group: no two jobs of one group run at the same time, on any node, in any queue and with any kind of store
    /// or broker. They start in the order they were sent (higher priority first), as long as none fails. A job that waits for its next
    /// attempt lets others pass. 1 to 200 bytes. It is what jBPM calls exclusive, and JMS `JMSXGroupID`.
    pub fn exclusive(mut self, group: impl Into<String>) -> Self {
        self.options.group = Some(group.into());
        self
    }

    /// Puts it into an exclusive group in strict order: if it fails, the group waits until it has succeeded or was deleted or cancelled,
    /// however long that takes. So a dead letter blocks its group.
    pub fn ordered(mut self, group: impl Into<String>) -> Self {
        self.options.ordered = true;
        self.exclusive(group)
    }

    /// Sets the tenant on whose behalf it runs. Limits and shares may apply by tenant. 1 to 200 bytes.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.options.tenant = Some(tenant.into());
        self
    }

    /// Sets a key of your own to which limits may apply, such as a printer or an account at a service. 1 to 200 bytes.
    pub fn limit_key(mut self, key: impl Into<String>) -> Self {
        self.options.limit_key = Some(key.into());
        self
    }

    /// Sets how long after its flush it may still start, by the database's clock. After that it is removed, and the removal is recorded. 1
    /// ms to 100 years. A delayed job must be due before.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// Sets the delays between the attempts of this job, instead of those of its kind.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.options.retry = Some(policy);
        self
    }

    /// Keeps a second job of the same key from existing. See [`Unique`].
    pub fn unique(mut self, unique: Unique) -> Self {
        self.unique = Some(unique);
        self
    }

    /// Returns the job's id: the given one, or one that was made for it.
    pub fn job_id(&self) -> JobId {
        self.id
    }

    /// Returns the job's kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Whether the sender chose the id ([`id`](Self::id)), which makes the send idempotent.
    pub fn is_id_given(&self) -> bool {
        self.id_given
    }

    /// Returns the queue in which it will wait.
    pub fn job_queue(&self) -> &str {
        &self.queue
    }

    /// Returns the priority: higher runs first within its queue.
    pub fn job_priority(&self) -> i16 {
        self.priority
    }

    /// Returns how many attempts it has before it becomes a dead letter.
    pub fn job_max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// Returns when it may first run: what [`delay`](Self::delay) or [`at`](Self::at) set.
    pub fn due(&self) -> Due {
        self.due
    }

    /// Returns its options beyond its place in the queue: group, tenant, limit key, time to live and retry policy. What it asks for as a unique job
    /// is in [`job_unique`](Self::job_unique), since its key is computed when it is sent.
    pub fn options(&self) -> &JobOptions {
        &self.options
    }

    /// Returns what it asks for as a unique job, if it is to be one.
    pub fn job_unique(&self) -> Option<&Unique> {
        self.unique.as_ref()
    }

    /// Returns the payload, unless it could not be serialised.
    pub fn payload(&self) -> Option<&Payload> {
        self.payload.as_ref().ok()
    }

    /// Returns the message, once everything else has been checked, with the options of its unique key. Fails if the payload could not be
    /// serialised.
    pub(super) fn into_message(self, unique: Option<UniqueOptions>) -> Result<JobMessage, String> {
        let Self { id, id_given, kind, queue, priority, max_attempts, due, payload, headers, options, .. } = self;
        let (payload, options) = (payload?, JobOptions { unique, ..options });
        let hidden_for = Duration::ZERO;
        Ok(JobMessage { id, id_given, kind, queue, priority, max_attempts, due, payload, headers, options, hidden_for })
    }

    /// Returns the headers: strings beside the payload.
    pub fn headers(&self) -> &BTreeMap<String, String> {
        &self.headers
    }
}

/// A checked job message, which a context has collected and its commit will flush. Only [`Context::send`](crate::Context::send) makes one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JobMessage {
    /// Id.
    pub id: JobId,
    /// Whether the sender chose the id, so that it may exist already.
    #[doc(hidden)]
    pub id_given: bool,
    /// Kind: which handler runs it.
    pub kind: String,
    /// Queue in which it waits.
    pub queue: String,
    /// Priority: higher runs first.
    pub priority: i16,
    /// Attempts before it becomes a dead letter.
    pub max_attempts: u32,
    /// When it may run.
    pub due: Due,
    /// Payload.
    pub payload: Payload,
    /// Headers: strings beside the payload.
    pub headers: BTreeMap<String, String>,
    /// Options beyond its place in the queue.
    pub options: JobOptions,
    /// How long after the flush it is hidden from claims of the table, because a broker delivers it. The delivery gets a head start, and
    /// nothing needs repair if it is lost. Zero, unless a service that publishes sets it; at most [`MAX_HIDDEN`](crate::store::MAX_HIDDEN).
    #[doc(hidden)]
    pub hidden_for: Duration,
}

impl JobMessage {
    /// Creates a message with a fresh id, due now, without headers and options.
    pub(crate) fn new(kind: String, queue: String, payload: Payload) -> Self {
        Self {
            id: JobId::new(),
            id_given: false,
            kind,
            queue,
            priority: 0,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            due: Due::Now,
            payload,
            headers: BTreeMap::new(),
            options: JobOptions::default(),
            hidden_for: Duration::ZERO,
        }
    }

    /// Whether it has to be admitted before it can start, whatever the free capacity. Such a job can't be taken straight from the flush.
    #[doc(hidden)]
    pub fn is_blocked_at_first(&self) -> bool {
        self.options.group.is_some()
    }
}

/// A job message from an external producer, with a digest to recognise the same message.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The message to store. Its id is the sender's.
    pub message: JobMessage,
    /// SHA-256 over everything that identifies the message.
    pub digest: [u8; 32],
}

/// A value that can be sent: a [`NewJob`], or a command (`S` is the store its handler runs on).
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be sent as a job",
    note = "send a `NewJob`, for example `NewJob::json(kind, &payload)`, or a command: a type that implements `Command<{S}>`"
)]
pub trait IntoJob<S> {
    /// Converts it to a job message, not yet checked.
    fn into_job(self) -> NewJob;
}

impl<S> IntoJob<S> for NewJob {
    fn into_job(self) -> NewJob {
        self
    }
}
