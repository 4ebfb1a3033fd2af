//! The role [`Acquire`].

use async_trait::async_trait;

use crate::error::Result;
use crate::job::{ClaimNumber, Fence, Job, NodeId};
use crate::store::{ClaimRequest, Claimed};

/// Claims jobs for a node.
#[async_trait]
pub trait Acquire: Send + Sync {
    /// Claims up to `limit` waiting jobs for a node, best first. Gives them the number of this claim as `version` and raises their
    /// `attempt`.
    ///
    /// # Errors
    /// [`LeaseLost`](crate::ErrorKind::LeaseLost) if there are jobs to take and the node is not alive.
    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claimed>;

    /// Claims the rows that deliveries name, hidden or not, if they still match their delivery: waiting, of that version, and of one
    /// of `kinds` (`None` = any). Marks them as [`claim`](Self::claim) does.
    async fn claim_delivered(
        &self,
        node: NodeId,
        claim: ClaimNumber,
        deliveries: &[Fence],
        kinds: Option<&[String]>,
    ) -> Result<Vec<Job>>;

    /// Records which kinds a node claims no jobs of, although it has their handlers: an object of reasons as JSON, for people. `None` = it
    /// claims them all.
    async fn report_left_alone(&self, node: NodeId, kinds: Option<&str>) -> Result<()>;
}
