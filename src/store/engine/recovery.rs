//! The role [`Recovery`].

use std::num::NonZeroU32;

use async_trait::async_trait;

use crate::error::Result;
use crate::job::{ClaimNumber, Fence, JobId, NodeId};
use crate::store::{NodeHeartbeat, Released};

/// Gives back what was lost: with a dead node, with an external worker that is late, or with the answer to a claim.
#[async_trait]
pub trait Recovery: Send + Sync {
    /// Returns the current heartbeats of all nodes.
    async fn node_heartbeats(&self) -> Result<Vec<NodeHeartbeat>>;

    /// Declares nodes dead whose heartbeat is still the given one. Never waits for a lock: passes over nodes that are locked. Returns the nodes
    /// that it declared dead.
    async fn declare_dead(&self, silent: &[NodeHeartbeat]) -> Result<Vec<NodeId>>;

    /// Releases at most `limit` jobs that dead nodes own. Each gets the error `owner lost` on its record, and its attempt is spent.
    /// Forgets dead nodes that own nothing any more, and frees what their cancelled handlers held. Call until [`Released::total`] is
    /// less than `limit`.
    ///
    /// A job whose node died is a [suspect](super::Acquire::suspects) from then on, and runs alone. It becomes a dead letter, whatever attempts
    /// remain, when its process has died `quarantine` times while it ran alone, since it was sent or since it was last a dead letter. The
    /// reason is `quarantined: its process died N times while it ran alone`. `None` = never, and then no job becomes a suspect. Nothing is held
    /// against the jobs of a node that a person has declared dead, or that is unknown. A job that its node ran in a group run is blocked on
    /// its group instead, and becomes a suspect if its node dies once it holds the group itself.
    async fn release_lost(&self, limit: usize, quarantine: Option<NonZeroU32>) -> Result<Released>;

    /// Releases what a node owns without knowing it, because the answer to a claim got lost; gives the attempts back. `known` must name every
    /// claim with a number before `before` that the node has in flight. What later claims took is left alone; `None` = no claim is under way.
    /// Compares claims, not jobs: the old handler of an id that was cancelled and sent again does not count.
    async fn release_unknown(&self, node: NodeId, known: &[Fence], before: Option<ClaimNumber>) -> Result<u64>;

    /// Does the same for one claim, when it is known which jobs that may have taken.
    async fn release_claimed(&self, node: NodeId, claim: ClaimNumber, ids: &[JobId]) -> Result<u64>;

    /// Releases at most `limit` jobs whose external worker let its lease expire; their attempts are spent.
    async fn expire_external(&self, limit: usize) -> Result<Released>;
}
