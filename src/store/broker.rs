//! What a store does for a broker: jobs handed out to external workers, and submissions of external producers.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::job::{Fence, JobId, JobMessage, NodeId, Payload, Submission};

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
    /// Whether one of them asked for a reply; it is a row of [`REPLY_QUEUE`](crate::headers::REPLY_QUEUE) now.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// It was stored.
    Stored(JobId),
    /// The same message was stored before.
    Known(JobId),
    /// Another message was stored under this id before, or a job of another kind or queue was sent with it.
    Conflict(JobId),
    /// Another transaction that has not ended holds its id or its unique key. Nothing was stored: it has to be submitted again.
    Undecided {
        /// The id of the submission.
        id: JobId,
        /// That transaction, for people: its process and program, or the name that it was prepared under.
        held_by: String,
    },
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

/// Returns whether a message has to wait while another one waits for a transaction: both need the same id or unique key, or the first would
/// overtake the other in their group.
pub(crate) fn waits_behind(message: &JobMessage, other: &JobMessage) -> bool {
    let (mine, others) = (&message.options, &other.options);
    message.id == other.id
        || mine.group.is_some() && mine.group == others.group
        || mine.unique.as_ref().zip(others.unique.as_ref()).is_some_and(|(mine, others)| mine.key == others.key)
}

/// Returns the answers, in the order of the submissions. `undecided` names those that have to wait, and what for. `None`: one of the others has
/// no record. `others` are ids of other jobs that are on no record: such a job was sent without the broker, with another kind or queue.
///
/// The id of a job that was sent without the broker has no digest to compare with. The first message with that id, its kind and its queue counts as
/// known, and its digest is the one on record from then on.
pub(crate) fn judge(
    submissions: &[Submission],
    records: &HashMap<JobId, SubmissionRecord>,
    undecided: &HashMap<JobId, String>,
    others: &HashSet<JobId>,
) -> Option<Vec<Received>> {
    let mut answered = HashSet::new();
    submissions
        .iter()
        .map(|Submission { message, digest }| {
            if let Some(held_by) = undecided.get(&message.id) {
                return Some(Received::Undecided { id: message.id, held_by: held_by.clone() });
            }
            let Some(record) = records.get(&message.id) else {
                return others.contains(&message.id).then_some(Received::Conflict(message.id));
            };
            let first = answered.insert(message.id);
            Some(match record {
                record if record.digest != *digest => Received::Conflict(message.id),
                SubmissionRecord { stored: true, .. } if first => Received::Stored(message.id),
                _ => Received::Known(message.id),
            })
        })
        .collect()
}
