//! Jobs that are messages to others: events and replies. They are rows like all jobs, in queues of their own, and gone when
//! the broker has confirmed them.

use serde::Serialize;

use super::{Job, NewJob, Payload};
use crate::error::{Error, Result};

/// Queue of events: each is published as it is, then removed.
pub const EVENT_QUEUE: &str = "jobwright.event";
/// Queue of results on their way to who asked for them.
pub const REPLY_QUEUE: &str = "jobwright.reply";
/// Header of a job: the queue in the broker that its result goes to.
pub const REPLY_TO: &str = "replyTo";
/// Header of a reply: the job whose result it is.
pub const REPLY_OF: &str = "jobId";
/// Header of a job that was submitted over the broker: who sent it, as the broker knows its users. Producers can't write it themselves.
pub const SENT_BY: &str = "sentBy";
/// Header of a job: what its result is to be recognised by.
pub const CORRELATION_ID: &str = "correlationId";

/// Names that the broker keeps for itself.
const RESERVED: &str = "amq.";
/// Among them those it makes up for queues that clients declare without a name: a usual place to wait for an answer.
const MADE_UP: &str = "amq.gen-";
/// Addresses of clients that wait for an answer without a queue of their own (direct reply-to).
const DIRECT: &str = "amq.rabbitmq.reply-to.";

/// Whether it is the name of something that the broker keeps for itself. Publishing there by mistake costs the channel, or the connection.
pub(crate) fn is_reserved_by_broker(name: &str) -> bool {
    name.starts_with(RESERVED) && !name.starts_with(MADE_UP)
}

/// Whether it is the address of a client that waits for a direct reply, as the broker wrote it: the name without it means nothing to others.
pub(crate) fn is_direct(name: &str) -> bool {
    name.strip_prefix(DIRECT).is_some_and(|client| !client.is_empty())
}

/// Refuses an address that a reply must not go to. `direct`: direct replies are allowed.
pub(super) fn check_reply_to(queue: &str, direct: bool) -> Result<()> {
    if !is_reserved_by_broker(queue) || (direct && is_direct(queue)) {
        return Ok(());
    }
    let todo = if is_direct(queue) { "; or set broker.direct_reply" } else { "" };
    Err(Error::invalid(format!(
        "header {REPLY_TO} is {queue:?}, a name that the broker keeps for itself; use a queue of your own{todo}"
    )))
}

impl NewJob {
    /// An event: a message to anyone who listens at the broker, sent if, and only if, the context commits. Nobody runs it.
    pub fn event<T: Serialize + ?Sized>(kind: impl Into<String>, value: &T) -> Self {
        Self::json(kind, value).queue(EVENT_QUEUE)
    }

    /// Asks for the result to be sent to this queue of the broker, recognisable by `correlation`.
    pub fn reply_to(self, queue: impl Into<String>, correlation: impl Into<String>) -> Self {
        self.header(REPLY_TO, queue).header(CORRELATION_ID, correlation)
    }
}

impl Job {
    /// The message that brings this job's result to who asked for it; `None`: nobody asked.
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
