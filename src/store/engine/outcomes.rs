//! The role [`Outcomes`].

use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;
use crate::job::{ClaimNumber, Fence, JobId, NodeId};
use crate::store::{GroupClaim, GroupsClaimed, HeldJob, JobProgress, ProgressUpdate, Settlement};

/// Records how claims end and how far they are, and tells which have ended without their handler. Progress survives the end of an attempt, and
/// is pruned some time after the end of the job.
#[async_trait]
#[doc(hidden)]
pub trait Outcomes: Send + Sync {
    /// Removes finished jobs. Returns those that were accepted; of the others, the claim is no longer current.
    async fn complete(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<JobId>>;

    /// Removes finished jobs of exclusive groups, and claims the next jobs of these groups for this node in the same statement. The node holds
    /// each group by a lease until it takes no more jobs of it.
    ///
    /// The next jobs are the best that wait for the group, up to the first one in another queue or of a kind that is not in `kinds`. There are
    /// none if anything is limited or paused. Claimed jobs are marked as by [`claim`](super::Claims::claim), with this number; so are new
    /// leases. At most 2,000 jobs may be wanted together.
    ///
    /// Jobs that are not accepted must be completed with [`complete`](Self::complete). A store without such a statement accepts none.
    async fn complete_and_claim_next(
        &self,
        _node: NodeId,
        _claim: ClaimNumber,
        _ended: &[Fence],
        _groups: &[GroupClaim],
        _kinds: &[String],
    ) -> Result<GroupsClaimed> {
        Ok(GroupsClaimed::default())
    }

    /// Records outcomes other than success. Returns the jobs whose outcomes were accepted.
    async fn settle(&self, node: NodeId, settlements: &[Settlement]) -> Result<Vec<JobId>>;

    /// Returns those of these claims whose jobs another transaction has locked, with a description of it. For a caller whose outcomes could not be
    /// recorded because of a lock. A store with a single writer has no such jobs.
    async fn held(&self, _node: NodeId, _fences: &[Fence]) -> Result<Vec<HeldJob>> {
        Ok(Vec::new())
    }

    /// Makes a job wait because its outcome can't be recorded. Its attempt is spent, and no node claims it for this long.
    async fn put_off(&self, node: NodeId, fence: Fence, by: Duration) -> Result<()>;

    /// Reports that the handlers of these claims have ended without an accepted outcome. If a job was cancelled while its handler ran, this
    /// releases what it held (its group, its permits). Returns how many of them held something. Naming other claims does nothing.
    async fn handlers_ended(&self, node: NodeId, fences: &[Fence]) -> Result<u64>;

    /// Returns which of these claims of a node are no longer current, because their jobs were cancelled, or released and claimed again.
    async fn stale_claims(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<Fence>>;

    /// Writes progress at once, in a transaction of its own. `false`: the claim is no longer current, and nothing was written.
    async fn record_progress(&self, node: NodeId, fence: Fence, update: &ProgressUpdate) -> Result<bool>;

    /// Returns the progress that was last written.
    async fn progress(&self, id: JobId) -> Result<Option<JobProgress>>;
}
