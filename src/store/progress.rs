//! Progress of running jobs.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::Result;
use crate::job::{Fence, JobId, NodeId};

/// Longest note, in bytes; longer ones are cut.
pub(crate) const NOTE_MAX: usize = 1024;
/// Longest checkpoint, in bytes.
pub(crate) const CHECKPOINT_MAX: usize = 16 * 1024;

/// Progress that a handler reports. Fields that are `None` stay as they were.
#[derive(Clone, Debug, Default)]
pub struct ProgressUpdate {
    /// Percent done, 0 to 100.
    pub percent: Option<u8>,
    /// A note for people, cut to 1 KiB.
    pub note: Option<String>,
    /// The checkpoint that the next attempt goes on from: JSON of at most 16 KiB.
    pub checkpoint: Option<Box<RawValue>>,
}

/// The progress of a job.
#[derive(Clone, Debug, Serialize)]
pub struct JobProgress {
    /// Percent done, 0 to 100.
    pub percent: Option<u8>,
    /// A note for people.
    pub note: Option<String>,
    /// The checkpoint that the next attempt goes on from.
    pub checkpoint: Option<Box<RawValue>>,
    /// When it was last written.
    pub at: Timestamp,
}

/// Stores progress of jobs. It survives the end of an attempt, and is pruned some time after the end of the job.
#[async_trait]
pub trait Progress: Send + Sync {
    /// Writes progress at once, in a transaction of its own. `false`: the claim is no longer current, and nothing was written.
    async fn record_progress(&self, node: NodeId, fence: Fence, update: &ProgressUpdate) -> Result<bool>;

    /// Returns the progress that was last written.
    async fn progress(&self, id: JobId) -> Result<Option<JobProgress>>;

    /// Forgets the progress of at most `limit` jobs that are gone. Returns how many.
    async fn prune_progress(&self, limit: usize) -> Result<u64>;

    /// Returns whether progress can be written while a transaction of the same process is open. The embedded store has one writer, so there it
    /// can't.
    fn writes_beside_transactions(&self) -> bool {
        true
    }
}
