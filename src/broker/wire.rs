//! Converts jobs to AMQP messages and back, in pure functions. The contract is broker/README.md.
//!
//! Nothing that arrives is trusted: whatever properties, headers and bodies a message has, the result is a value or a [`Refusal`]. Outgoing
//! messages fit into the frames of AMQP, whatever is in the database: an overlong name or too many headers would otherwise cost the
//! connection each time.

mod body;
mod delivery;
mod digest;
mod envelope;
mod fields;
mod headers;
mod priority;
mod refused;
mod reply_to;
mod report;
mod submission;
pub mod testing;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub(crate) use self::delivery::{ROWS, RowRef, delivery, read_delivery};
pub(crate) use self::envelope::{event, external, reply};
pub(crate) use self::refused::{again, dead, death, rejected, rejected_report};
pub(crate) use self::report::report;
pub(crate) use self::submission::{allowed, submission};
use super::{Incoming, Names, Outgoing};
use crate::error::Error;
use crate::job::{Fence, JobId, Payload, RetryAdvice};

/// Why a message is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The reason for programs: a short word from broker/README.md.
    pub(crate) reason: &'static str,
    /// The explanation for people.
    pub(crate) text: String,
}

impl Refusal {
    fn new(reason: &'static str, text: impl Into<String>) -> Self {
        Self { reason, text: text.into() }
    }

    /// The database refuses it.
    pub(crate) fn not_stored(error: &Error) -> Self {
        Self::new("not-stored", error.to_string())
    }

    /// Its queue is full.
    pub(crate) fn full(queue: &str) -> Self {
        Self::new(
            "full",
            format!(
                "the queue {queue:?} has as many waiting jobs as its rule allows, and no room came free in time: submit the job again later"
            ),
        )
    }

    /// Another message was taken in under this id before.
    pub(crate) fn conflict(id: JobId) -> Self {
        Self::new(
            "conflict",
            format!("another message with other content was taken in as job {id} before; give each job a separate id"),
        )
    }
}

/// A result to be sent.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// To a queue.
    Queue(Outgoing),
    /// To a client that waits without its own queue: see [`Broker::directly`](super::Broker::directly).
    Direct(Outgoing),
}

/// A report of an external worker.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExternalReport {
    /// The job is done, with this result.
    Done { fence: Fence, result: Option<Payload> },
    /// The job failed.
    Failed { fence: Fence, error: String, detail: Option<String>, advice: RetryAdvice },
    /// The worker needs this much longer from now; `None` = as long as the lease was.
    Extend { fence: Fence, lease: Option<Duration> },
}
