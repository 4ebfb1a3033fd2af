//! What a store does for a broker: jobs handed out to external workers, and submissions of external producers.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::job::{Fence, JobId, NodeId, Payload, Submission};

/// A job that an external worker has done.
#[derive(Clone, Debug)]
pub struct ExternalDone {
    /// The fence of the hand-out.
    pub fence: Fence,
    /// The worker's result, sent on if the job asked for a reply.
    pub result: Option<Payload>,
}

/// The result of recording jobs that external workers have done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// The jobs that were accepted.
    pub ids: Vec<JobId>,
    /// Whether one of them asked for a reply; it is a row of [`REPLY_QUEUE`](crate::REPLY_QUEUE) now.
    pub replies: bool,
    /// Whether jobs may be unblocked now: one of them held a group or permits, or one was refused because its job had been
    /// cancelled.
    pub unblocks: bool,
}

/// A longer lease for a job that was handed out to an external worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// The fence of the hand-out.
    pub fence: Fence,
    /// How long from now, by the database's clock; `None` = as long as the lease it was handed out with.
    pub lease: Option<Duration>,
}

/// The answer to a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It was stored.
    Stored(JobId),
    /// The same message was stored before.
    Known(JobId),
    /// Another message was stored under this id before.
    Conflict(JobId),
}

/// Why a job became a dead letter when its last attempt ended with the lease of its external worker.
pub(crate) const LEASE_EXPIRED: &str = "lease expired";
/// The error on its record then.
pub(crate) const NO_ANSWER: &str = "lease expired: the external worker did not answer in time";
/// The node in the record of an external worker's errors. No node has this number.
pub(crate) const EXTERNAL_NODE: NodeId = NodeId(0);

/// The record of a submitted id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SubmissionRecord {
    /// Whether this call stored it.
    pub(crate) stored: bool,
    /// The digest of the first message with this id.
    pub(crate) digest: [u8; 32],
}

/// Returns the answers, in the order of the submissions. `None`: one of them has no record.
///
/// The id of a job that was sent without the broker has no digest to compare with. The first message with that id counts as
/// known, and its digest is the one on record from then on.
pub(crate) fn judge(submissions: &[Submission], records: &HashMap<JobId, SubmissionRecord>) -> Option<Vec<Received>> {
    let mut answered = HashSet::new();
    submissions
        .iter()
        .map(|Submission { message, digest }| {
            let record = records.get(&message.id)?;
            let first = answered.insert(message.id);
            Some(match record {
                record if record.digest != *digest => Received::Conflict(message.id),
                SubmissionRecord { stored: true, .. } if first => Received::Stored(message.id),
                _ => Received::Known(message.id),
            })
        })
        .collect()
}
