//! Jobs that are messages to others: events and replies. They are rows like all jobs, in queues of their own, and gone when
//! the broker has confirmed them.

use serde::Serialize;

use super::{Job, NewJob, Payload};

/// Queue of events: each is published as it is, then removed.
pub const EVENT_QUEUE: &str = "jobwright.event";
/// Queue of results on their way to who asked for them.
pub const REPLY_QUEUE: &str = "jobwright.reply";
/// Header of a job: the queue in the broker that its result goes to.
pub const REPLY_TO: &str = "replyTo";
/// Header of a reply: the job whose result it is.
pub const REPLY_OF: &str = "jobId";
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
