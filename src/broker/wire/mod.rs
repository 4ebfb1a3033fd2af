//! From jobs to AMQP messages and back. The contract is broker/README.md.

use std::time::Duration;

use super::{Incoming, Names, Outgoing};
use crate::job::{Fence, Job, Limits, Payload, RetryAdvice, Submission};

/// Why a message is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// For programs: a short word of broker/README.md.
    pub(crate) reason: &'static str,
    /// For people.
    pub(crate) text: String,
}

/// What an external worker says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExternalReport {
    /// It is done, with this result.
    Done { fence: Fence, result: Option<Payload> },
    /// It failed.
    Failed { fence: Fence, error: String, detail: Option<String>, advice: RetryAdvice },
    /// It needs longer: this long from now; `None` = as long as the lease was.
    Extend { fence: Fence, lease: Option<Duration> },
}

/// A delivery of a row to an executor of ours: a pointer.
pub(crate) fn delivery(names: &Names, queue: &str, kind: &str, fence: Fence) -> Outgoing {
    let _ = (names, queue, kind, fence);
    todo!()
}

/// Which row a delivery is of, and the kind of the job.
pub(crate) fn read_delivery(message: &Incoming) -> Result<(Fence, String), Refusal> {
    let _ = message;
    todo!()
}

/// A whole job for an external worker.
pub(crate) fn external(names: &Names, job: &Job) -> Outgoing {
    let _ = (names, job);
    todo!()
}

/// An event.
pub(crate) fn event(names: &Names, job: &Job) -> Outgoing {
    let _ = (names, job);
    todo!()
}

/// A result on its way to who asked for it; `None`: the job does not say where to.
pub(crate) fn reply(names: &Names, job: &Job) -> Option<Outgoing> {
    let _ = (names, job);
    todo!()
}

/// A job that a foreign producer submits.
pub(crate) fn submission(message: &Incoming, limits: Limits) -> Result<Submission, Refusal> {
    let _ = (message, limits);
    todo!()
}

/// A submission on its way to those that are refused, as it came, with the reason in headers.
pub(crate) fn rejected(names: &Names, message: &Incoming, why: &Refusal) -> Outgoing {
    let _ = (names, message, why);
    todo!()
}

/// Any other message that can't be used, as it came, with the reason in headers.
pub(crate) fn dead(names: &Names, message: &Incoming, why: &Refusal) -> Outgoing {
    let _ = (names, message, why);
    todo!()
}

/// What an external worker reports.
pub(crate) fn report(message: &Incoming, limits: Limits) -> Result<ExternalReport, Refusal> {
    let _ = (message, limits);
    todo!()
}
