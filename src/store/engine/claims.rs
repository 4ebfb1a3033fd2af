//! The role [`Claims`].

use async_trait::async_trait;

use crate::error::Result;
use crate::job::{ClaimNumber, Fence, Job, JobId, NodeId};
use crate::store::{Acquitted, ClaimRequest, Claimed, Suspect};

/// Claims jobs for a node, and gives back what it claimed without hearing of it.
#[async_trait]
#[doc(hidden)]
pub trait Claims: Send + Sync {
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

    /// Returns the best `limit` suspects that wait in these queues, are of these kinds (`None` = any), and may start as far as rules and time
    /// allow it: those that are paused, hidden or expired are left out. Limits that claims count are not looked at.
    ///
    /// A suspect is a job whose process died while it ran, so that the job may be to blame ([`release_lost`](super::Nodes::release_lost)).
    /// It is blocked, and only [a claim of suspects](ClaimRequest::suspects) takes it. Given back, it is a suspect again. Any other end of its
    /// attempt clears it, because its process lives.
    async fn suspects(&self, queues: &[String], kinds: Option<&[String]>, limit: usize) -> Result<Vec<Suspect>>;

    /// Makes ordinary jobs of suspects that wait or run. Jobs that are no suspects, or are gone, are left alone.
    async fn acquit(&self, ids: &[JobId]) -> Result<Acquitted>;

    /// Releases what a node owns without knowing it, because the answer to a claim got lost; gives the attempts back. `known` must name every
    /// claim with a number before `before` that the node has in flight. What later claims took is left alone; `None` = no claim is under way.
    /// Compares claims, not jobs: the old handler of an id that was cancelled and sent again does not count.
    async fn release_unknown(&self, node: NodeId, known: &[Fence], before: Option<ClaimNumber>) -> Result<u64>;

    /// Does the same for one claim, when it is known which jobs that may have taken.
    async fn release_claimed(&self, node: NodeId, claim: ClaimNumber, ids: &[JobId]) -> Result<u64>;
}
