use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{JobId, JobMessage, JobOptions, Payload};

/// A job as its owner sees it while it runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Job {
    /// Id, which stays the same over all attempts and states.
    pub id: JobId,
    /// Position in the order of sending, from the database's sequence at the flush.
    pub seq: i64,
    /// The fencing token of this claim.
    #[doc(hidden)]
    pub version: i64,
    /// Kind: which handler runs it.
    pub kind: String,
    /// Queue in which it waited.
    pub queue: String,
    /// Priority: higher runs first.
    pub priority: i16,
    /// Number of this attempt; the first is 1. It is counted when the job is claimed, so a crash counts too.
    pub attempt: u32,
    /// Number of attempts after whose failure the job becomes a dead letter.
    pub max_attempts: u32,
    /// Payload.
    pub payload: Payload,
    /// Headers: strings beside the payload.
    pub headers: BTreeMap<String, String>,
    /// Options beyond its place in the queue.
    pub options: JobOptions,
    /// Whether it was admitted: others may wait for its group or permit until it ends.
    #[doc(hidden)]
    pub admitted: bool,
    /// Time of its flush, by the database's clock.
    pub created_at: Timestamp,
    /// Location of its row when it was claimed.
    #[doc(hidden)]
    pub location: RowLocation,
}

impl Job {
    /// Returns the job that a claim of this message makes.
    pub(crate) fn claimed(message: JobMessage, seq: i64, version: i64, attempt: u32, created_at: Timestamp) -> Self {
        let JobMessage { id, kind, queue, priority, max_attempts, payload, headers, options, .. } = message;
        Self {
            id,
            seq,
            version,
            kind,
            queue,
            priority,
            attempt,
            max_attempts,
            payload,
            headers,
            options,
            admitted: false,
            created_at,
            location: RowLocation::default(),
        }
    }

    /// Returns the fence that an outcome must name to be accepted.
    #[doc(hidden)]
    pub fn fence(&self) -> Fence {
        Fence { id: self.id, version: self.version, location: self.location }
    }
}

/// A claim on a job: its id and the fencing token that the claim issued. An outcome that names an older token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Fence {
    /// The job's id.
    pub id: JobId,
    /// The token. It is compared for equality and never ordered: after 2,147,483,647 comes 0.
    pub version: i64,
    /// Where the store may find the row. It is ignored when two fences are compared.
    pub location: RowLocation,
}

impl Fence {
    /// Creates a fence for a row whose location is not known.
    pub fn new(id: JobId, version: i64) -> Self {
        Self { id, version, location: RowLocation::default() }
    }
}

/// Where a store found the row of a job, so that it need not search a second time, and what the job held then. It is only a hint: the row may
/// have moved, or another row may be there by now, so its user must compare id and token. Only the store that issued it understands it.
/// Comparing two of them means nothing, so all are equal.
#[derive(Clone, Copy, Default)]
pub struct RowLocation {
    number: Option<NonZeroU64>,
    /// The job holds permits by its id alone, and its completion must release them.
    pub(crate) holds_permits: bool,
    /// The job asked for a unique key, and its completion must give that back.
    pub(crate) holds_key: bool,
}

impl RowLocation {
    /// Creates a location from the store's number; zero means unknown.
    pub fn new(location: u64) -> Self {
        Self { number: NonZeroU64::new(location), ..Self::default() }
    }

    /// Returns the number given to [`new`](Self::new), if it is known.
    pub fn get(self) -> Option<u64> {
        self.number.map(NonZeroU64::get)
    }
}

impl fmt::Debug for RowLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Some(location) => write!(f, "RowLocation({location:#x})"),
            None => f.write_str("RowLocation(unknown)"),
        }
    }
}

impl PartialEq for RowLocation {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for RowLocation {}

impl Hash for RowLocation {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// One node session of an executor. Each start gets a new number, so a reused name never revives old ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub i64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How one attempt failed, as stored with the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptError {
    /// Number of the attempt.
    pub attempt: u32,
    /// Time of recording, by the database's clock.
    pub at: Timestamp,
    /// The node that ran it.
    pub node: i64,
    /// The error, at most 1 KiB.
    pub error: String,
    /// Causes, a stack trace, or the end of a program's stderr: at most 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}
