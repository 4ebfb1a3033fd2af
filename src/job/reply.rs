//! Jobs that are messages to other systems: events and replies. They are rows like all jobs, in queues of their own, and are removed when
//! the broker has confirmed them.

use serde::Serialize;

use super::{Job, NewJob, Payload};
use crate::error::{Error, Result};

/// Queue of events: each is published as it is, then removed.
pub const EVENT_QUEUE: &str = "jobwright.event";
/// Queue of results on their way to their requesters.
pub const REPLY_QUEUE: &str = "jobwright.reply";
/// Header of a job: the queue in the broker that its result goes to.
pub const REPLY_TO: &str = "replyTo";
/// Header of a reply: the job that produced the result.
pub const REPLY_OF: &str = "jobId";
/// Header of a job that was submitted over the broker: its sender, by the broker's user names. Producers can't set it.
pub const SENT_BY: &str = "sentBy";
/// Header of a job: the correlation id of its result.
pub const CORRELATION_ID: &str = "correlationId";

/// Prefix of names that are reserved by the broker.
const RESERVED: &str = "amq.";
/// Prefix of names that the broker generates for queues declared without a name. Clients often wait for answers in such queues.
const MADE_UP: &str = "amq.gen-";
/// Prefix of addresses of clients that wait for an answer without a queue of their own (direct reply-to).
const DIRECT: &str = "amq.rabbitmq.reply-to.";

/// Whether the broker reserves this name. Publishing to it by mistake closes the channel, or the connection.
pub(crate) fn is_reserved_by_broker(name: &str) -> bool {
    name.starts_with(RESERVED) && !name.starts_with(MADE_UP)
}

/// Whether this is the address of a client that waits for a direct reply, as the broker wrote it. Without the suffix the name means
/// nothing.
pub(crate) fn is_direct(name: &str) -> bool {
    name.strip_prefix(DIRECT).is_some_and(|client| !client.is_empty())
}

/// Refuses an address to which a reply must not go. `direct`: direct replies are allowed.
pub(super) fn check_reply_to(queue: &str, direct: bool) -> Result<()> {
    if !is_reserved_by_broker(queue) || (direct && is_direct(queue)) {
        return Ok(());
    }
    let todo = if is_direct(queue) { "; or set broker.direct_reply" } else { "" };
    Err(Error::invalid(format!(
        "header {REPLY_TO} is {queue:?}, a name that the broker keeps for itself; use another queue{todo}"
    )))
}

impl NewJob {
    /// Creates an event: a message to all listeners at the broker, sent if and only if the context commits. No handler runs it.
    pub fn event<T: Serialize + ?Sized>(kind: impl Into<String>, value: &T) -> Self {
        Self::json(kind, value).queue(EVENT_QUEUE)
    }

    /// Requests that the result be sent to this queue of the broker, identified by `correlation`.
    pub fn reply_to(self, queue: impl Into<String>, correlation: impl Into<String>) -> Self {
        self.header(REPLY_TO, queue).header(CORRELATION_ID, correlation)
    }
}

impl Job {
    /// Returns the message that carries this job's result to its requester; `None` if no result was requested.
    pub fn reply(&self, result: Payload) -> Option<NewJob> {
        let to = self.headers.get(REPLY_TO)?;
        let reply = NewJob::new(self.kind.clone(), result)
            .queue(REPLY_QUEUE)
            .header(REPLY_TO, to)
            .header(REPLY_OF, self.id.to_string());
        Some(match self.headers.get(CORRELATION_ID) {
            Some(correlation) => reply.header(CORRELATION_ID, correlation),
            None => reply,
        })
    }
}
