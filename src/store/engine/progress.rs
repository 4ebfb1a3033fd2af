//! The role [`Progress`].

use async_trait::async_trait;

use super::StoreInfo;
use crate::error::Result;
use crate::job::{Fence, JobId, NodeId};
use crate::store::{JobProgress, ProgressUpdate};

/// Progress of jobs. It survives the end of an attempt, and is pruned some time after the end of the job.
#[async_trait]
pub trait Progress: StoreInfo + Send + Sync {
    /// Writes progress at once, in a transaction of its own. `false`: the claim is no longer current, and nothing was written.
    async fn record_progress(&self, node: NodeId, fence: Fence, update: &ProgressUpdate) -> Result<bool>;

    /// Returns the progress that was last written.
    async fn progress(&self, id: JobId) -> Result<Option<JobProgress>>;
}
