//! How far running jobs have got.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::Result;
use crate::job::{Fence, JobId, NodeId};

/// Longest note, in bytes; what is longer is cut.
pub(crate) const NOTE_MAX: usize = 1024;
/// Longest checkpoint, in bytes.
pub(crate) const CHECKPOINT_MAX: usize = 16 * 1024;

/// What a handler says about itself. What is `None` stays as it was.
#[derive(Clone, Debug, Default)]
pub struct ProgressUpdate {
    /// 0 to 100.
    pub percent: Option<u8>,
    /// A line for people, cut to 1 KiB.
    pub note: Option<String>,
    /// What the next attempt goes on from: JSON of at most 16 KiB.
    pub checkpoint: Option<Box<RawValue>>,
}

/// How far a job has got.
#[derive(Clone, Debug, Serialize)]
pub struct JobProgress {
    /// 0 to 100.
    pub percent: Option<u8>,
    /// A line for people.
    pub note: Option<String>,
    /// What the next attempt goes on from.
    pub checkpoint: Option<Box<RawValue>>,
    /// When it was last said.
    pub at: Timestamp,
}

/// Progress of jobs. It survives the end of an attempt, and goes some time after the job.
#[async_trait]
pub trait Progress: Send + Sync {
    /// Writes progress at once, in a transaction of its own. `false`: the claim is no longer current, and nothing was written.
    async fn record_progress(&self, node: NodeId, fence: Fence, update: &ProgressUpdate) -> Result<bool>;

    /// What was last written.
    async fn progress(&self, id: JobId) -> Result<Option<JobProgress>>;

    /// Forgets the progress of at most `limit` jobs that are gone. Returns how many.
    async fn prune_progress(&self, limit: usize) -> Result<u64>;

    /// Whether progress can be written while a transaction of the same process is open. The embedded store has one writer.
    fn writes_beside_transactions(&self) -> bool {
        true
    }
}
