//! The role [`Nodes`].

use std::num::NonZeroU32;
use std::sync::Arc;

use async_trait::async_trait;

use super::StoreInfo;
use crate::error::Result;
use crate::job::NodeId;
use crate::store::{NodeHeartbeat, NodeInfo, Released, ServerIdentity};

/// A node's own standing with the database, and the deaths of others.
#[async_trait]
#[doc(hidden)]
pub trait Nodes: StoreInfo + Send + Sync {
    /// Registers a new node session and starts its lease.
    async fn register_node(&self, node: &NodeInfo) -> Result<NodeId>;

    /// Renews the node's lease. `false`: the node was declared dead or is unknown, and nothing revives it.
    async fn heartbeat(&self, node: NodeId) -> Result<bool>;

    /// Identifies the server that answers. `None`: there can be only one.
    async fn identity(&self) -> Result<Option<ServerIdentity>>;

    /// Does both with one statement. A role may have the right to renew a lease and not the one to identify the server: then this fails, and changes
    /// nothing.
    async fn heartbeat_and_identity(&self, node: NodeId) -> Result<(bool, Option<ServerIdentity>)> {
        Ok((self.heartbeat(node).await?, self.identity().await?))
    }

    /// Ends a node whose process stops in good order, or lives on though its lease was lost. Waits, at most for `call_timeout`, for its claims
    /// that are still under way on the server. Then releases whatever it owns and gives the attempts back. Returns how many jobs it released.
    async fn retire_node(&self, node: NodeId) -> Result<u64>;

    /// Opens another handle on the same database, with connections of its own, for use on another runtime: a heartbeat must not
    /// wait for anything that blocks the application's runtime.
    async fn detached(&self) -> Result<Arc<dyn Nodes>>;

    /// Closes idle connections, so that the next ones are new: the old ones may lead to a server that is no longer the right one.
    fn reconnect(&self);

    /// Records the state of a node's broker connection, for the status; `None` = it has no broker.
    async fn report_broker(&self, node: NodeId, mode: Option<&str>) -> Result<()>;

    /// Records which kinds a node claims no jobs of, although it has their handlers: an object of reasons as JSON, for people. `None` = it
    /// claims them all.
    async fn report_left_alone(&self, node: NodeId, kinds: Option<&str>) -> Result<()>;

    /// Records which tasks of a node fail again and again: an array of [`FailingTask`](crate::store::FailingTask) as JSON, for people. `None` = none.
    async fn report_failing(&self, node: NodeId, tasks: Option<&str>) -> Result<()>;

    /// Checks that the tables for incoming messages and reports take writes now. Changes nothing, and waits as a write would. A store with one
    /// lock for everything need not check: any other write has shown it.
    async fn takes_writes(&self) -> Result<()> {
        Ok(())
    }

    /// Returns the current heartbeats of all nodes.
    async fn node_heartbeats(&self) -> Result<Vec<NodeHeartbeat>>;

    /// Returns the current heartbeats of the nodes that `me` watches. Some living nodes watch all others, and these watch them, so that a fleet
    /// does not read the heartbeats of all nodes once for each node. A store that runs on one machine lets every node watch all.
    async fn watched_heartbeats(&self, me: NodeId) -> Result<Vec<NodeHeartbeat>> {
        let _ = me;
        self.node_heartbeats().await
    }

    /// Declares nodes dead whose heartbeat is still the given one. Never waits for a lock: passes over nodes that are locked. Returns the nodes
    /// that it declared dead.
    async fn declare_dead(&self, silent: &[NodeHeartbeat]) -> Result<Vec<NodeId>>;

    /// Releases at most `limit` jobs that dead nodes own. Each gets the error `owner lost` on its record, and its attempt is spent.
    /// Forgets dead nodes that own nothing any more, and frees what their cancelled handlers held. Call until [`Released::total`] is
    /// less than `limit`.
    ///
    /// A job whose node died is a [suspect](super::Claims::suspects) from then on, and runs alone. It becomes a dead letter, whatever attempts
    /// remain, when its process has died `quarantine` times while it ran alone, since it was sent or since it was last a dead letter. The
    /// reason is `quarantined: its process died N times while it ran alone`. `None` = never, and then no job becomes a suspect. Nothing is held
    /// against the jobs of a node that a person has declared dead, or that is unknown. A job that its node ran in a group run is blocked on
    /// its group instead, and becomes a suspect if its node dies once it holds the group itself.
    async fn release_lost(&self, limit: usize, quarantine: Option<NonZeroU32>) -> Result<Released>;
}
