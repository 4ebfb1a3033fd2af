//! What a store does for a broker: held rows, jobs in the hands of external workers, and what foreign producers submit.

use std::time::Duration;

use crate::job::{Fence, JobId, Payload};

/// An external worker's success.
#[derive(Clone, Debug)]
pub struct ExternalDone {
    /// Which hand-out.
    pub fence: Fence,
    /// What it gave back: sent on if the job asked for a reply.
    pub result: Option<Payload>,
}

/// A longer lease for a job in the hands of an external worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// Which hand-out.
    pub fence: Fence,
    /// From now on, by the database's clock; `None` = as long as it was handed out for.
    pub lease: Option<Duration>,
}

/// What became of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Stored.
    Stored(JobId),
    /// The same message was stored before.
    Known(JobId),
    /// Another message was stored under this id before.
    Conflict(JobId),
}
