//! What a store does for a broker: held rows, jobs in the hands of external workers, and what foreign producers submit.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::job::{Fence, JobId, NodeId, Payload, Submission};

/// An external worker's success.
#[derive(Clone, Debug)]
pub struct ExternalDone {
    /// Which hand-out.
    pub fence: Fence,
    /// What it gave back: sent on if the job asked for a reply.
    pub result: Option<Payload>,
}

/// What became of the successes of external workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// Those that were accepted.
    pub ids: Vec<JobId>,
    /// One of them had asked for a reply, which is a row of [`REPLY_QUEUE`](crate::REPLY_QUEUE) now.
    pub replies: bool,
    /// Something that others wait for may be free: one of them held a group or places under limits, or one was refused whose job was
    /// cancelled meanwhile.
    pub opens: bool,
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

/// Why a job became a dead letter when its last attempt ended with the lease of its external worker.
pub(crate) const LEASE_EXPIRED: &str = "lease expired";
/// What is put on record then.
pub(crate) const NO_ANSWER: &str = "lease expired: the external worker did not answer in time";
/// Who ran what external workers did, on the record of its errors: no node has this number.
pub(crate) const EXTERNAL_NODE: NodeId = NodeId(0);

/// What is on record for a submitted id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// By this call.
    pub(crate) stored: bool,
    /// Of the first message under this id.
    pub(crate) digest: [u8; 32],
}

/// The answers, in the order of the submissions. `None`: one of them is on no record.
///
/// An id whose job was there already, sent past the broker, has no digest to compare with: the first message under it counts
/// as known, and its digest is the one on record from then on.
pub(crate) fn judge(submissions: &[Submission], records: &HashMap<JobId, Record>) -> Option<Vec<Received>> {
    let mut answered = HashSet::new();
    submissions
        .iter()
        .map(|Submission { message, digest }| {
            let record = records.get(&message.id)?;
            let first = answered.insert(message.id);
            Some(match record {
                record if record.digest != *digest => Received::Conflict(message.id),
                Record { stored: true, .. } if first => Received::Stored(message.id),
                _ => Received::Known(message.id),
            })
        })
        .collect()
}
