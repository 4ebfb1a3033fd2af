//! Jobs that are messages to others: events and replies. They are rows like all jobs, in queues of their own, and gone when
//! the broker has confirmed them.

use serde::Serialize;

use super::NewJob;

/// Queue of events: each is published as it is, then removed.
pub const EVENT_QUEUE: &str = "jobwright.event";
/// Queue of results on their way to who asked for them.
pub const REPLY_QUEUE: &str = "jobwright.reply";
/// Header of a job: the queue in the broker that its result goes to.
pub const REPLY_TO: &str = "replyTo";
/// Header of a job: what its result is to be recognised by.
pub const CORRELATION_ID: &str = "correlationId";

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
