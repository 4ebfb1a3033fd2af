//! The role [`Leases`].

use std::sync::Arc;

use async_trait::async_trait;

use super::StoreInfo;
use crate::error::Result;
use crate::job::NodeId;
use crate::store::{NodeInfo, ServerIdentity};

/// A node's own standing with the database.
#[async_trait]
pub trait Leases: StoreInfo + Send + Sync {
    /// Registers a new node session and starts its lease.
    async fn register_node(&self, node: &NodeInfo) -> Result<NodeId>;

    /// Renews the node's lease. `false`: the node was declared dead or is unknown, and nothing revives it.
    async fn heartbeat(&self, node: NodeId) -> Result<bool>;

    /// Identifies the server that answers. `None`: there can be only one.
    async fn identity(&self) -> Result<Option<ServerIdentity>>;

    /// Ends a node whose process stops in good order, or lives on though its lease was lost. Waits, at most for `call_timeout`, for its claims
    /// that are still under way on the server. Then releases whatever it owns and gives the attempts back. Returns how many jobs it released.
    async fn retire_node(&self, node: NodeId) -> Result<u64>;

    /// Opens another handle on the same database, with connections of its own, for use on another runtime: a heartbeat must not
    /// wait for anything that blocks the application's runtime.
    async fn detached(&self) -> Result<Arc<dyn Leases>>;

    /// Closes idle connections, so that the next ones are new: the old ones may lead to a server that is no longer the right one.
    fn reconnect(&self);

    /// Records the state of a node's broker connection, for the status; `None` = it has no broker.
    async fn report_broker(&self, node: NodeId, mode: Option<&str>) -> Result<()>;

    /// Checks that the tables for incoming messages and reports take writes now. Changes nothing, and waits as a write would. A store with one
    /// lock for everything need not check: any other write has shown it.
    async fn takes_writes(&self) -> Result<()> {
        Ok(())
    }
}
