use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{JobId, Payload, Terms};

/// A job as its owner sees it while it runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Job {
    /// Identity: stable over all attempts and states.
    pub id: JobId,
    /// Order: taken from the database's sequence when the job was flushed.
    pub seq: i64,
    /// The fencing token of this claim.
    pub version: i64,
    /// What is to be done.
    pub kind: String,
    /// Where it waited.
    pub queue: String,
    /// Higher runs first.
    pub priority: i16,
    /// Number of this attempt; the first is 1. Counted when the job is claimed, so a crash counts too.
    pub attempt: u32,
    /// After the failure of this attempt it becomes a dead letter.
    pub max_attempts: u32,
    /// What it carries.
    pub payload: Payload,
    /// Strings beside the payload.
    pub headers: BTreeMap<String, String>,
    /// What it asked for beside a place in its queue.
    pub terms: Terms,
    /// It was admitted: others may wait for what it holds (its group, a place under a limit) until it ends.
    pub admitted: bool,
    /// When it was flushed, by the database's clock.
    pub created_at: Timestamp,
    /// Where its row was when it was claimed.
    pub place: RowPlace,
}

impl Job {
    /// What an outcome must name to be accepted.
    pub fn fence(&self) -> Fence {
        Fence { id: self.id, version: self.version, place: self.place }
    }
}

/// A claim on a job: its id and the fencing token the claim gave out. An outcome that names an older token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Fence {
    /// The job.
    pub id: JobId,
    /// The token. Compared and never ordered: after 2,147,483,647 comes 0.
    pub version: i64,
    /// Where the store may find the row. It counts for nothing when two fences are compared.
    pub place: RowPlace,
}

impl Fence {
    /// A claim whose row has to be looked for.
    pub fn new(id: JobId, version: i64) -> Self {
        Self { id, version, place: RowPlace::default() }
    }
}

/// Where a store found the row of a job, so that it need not look for it a second time. A hint and no more: the row may have moved, or
/// another may be there by now, so whoever goes by it compares id and token. Means something to the store that gave it out; to compare two
/// of them says nothing, so all are equal.
#[derive(Clone, Copy, Default)]
pub struct RowPlace(Option<NonZeroU64>);

impl RowPlace {
    /// As the store counts; zero: unknown.
    pub fn new(place: u64) -> Self {
        Self(NonZeroU64::new(place))
    }

    /// What [`new`](Self::new) was given, if it is known.
    pub fn get(self) -> Option<u64> {
        self.0.map(NonZeroU64::get)
    }
}

impl fmt::Debug for RowPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(place) => write!(f, "RowPlace({place:#x})"),
            None => f.write_str("RowPlace(unknown)"),
        }
    }
}

impl PartialEq for RowPlace {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for RowPlace {}

impl Hash for RowPlace {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// One incarnation of an executor: a new number for each start, so a reused name never revives old ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub i64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How one attempt failed, as kept with the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptError {
    /// Which attempt.
    pub attempt: u32,
    /// When it was recorded, by the database's clock.
    pub at: Timestamp,
    /// The node that ran it.
    pub node: i64,
    /// What went wrong, at most 1 KiB.
    pub error: String,
    /// Causes, a stack, the end of a program's stderr: at most 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}
