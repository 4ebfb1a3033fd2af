//! What an executor was built with, and its registration.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Result, warn_of};
use crate::executor::handler::external_queue::ExternalQueue;
use crate::executor::handler::registry::Registry;
use crate::executor::node::breaker::Breakers;
use crate::executor::node::stats::Counters;
use crate::executor::outcome::failure_policy::FailurePolicy;
use crate::job::NodeId;
use crate::message::MessageServices;
use crate::store::{NodeInfo, Store};

/// What an executor was built with.
pub(crate) struct Settings<S: Store> {
    pub(crate) messages: MessageServices<S>,
    pub(crate) registry: Arc<Registry<S>>,
    pub(crate) breakers: Arc<Breakers>,
    pub(crate) queues: Vec<(String, usize)>,
    /// Queues whose jobs go to external workers.
    pub(crate) external: Vec<ExternalQueue>,
    pub(crate) node: NodeInfo,
    pub(crate) poll_interval: Duration,
    pub(crate) failure_policy: Arc<FailurePolicy>,
    /// The number of node deaths after which a job is dead-lettered.
    pub(crate) quarantine: Option<NonZeroU32>,
    pub(crate) call_timeout: Duration,
    pub(crate) cancel_grace: Duration,
    /// How long the runtime may run no task until the node gives up its lease.
    pub(crate) stall_timeout: Option<Duration>,
    pub(crate) counters: Arc<Counters>,
    /// How long a stop waits for handlers. The caller of the stop may override it.
    pub(crate) grace: Mutex<Duration>,
}

impl<S: Store> Settings<S> {
    pub(crate) fn grace(&self) -> Duration {
        *self.grace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn register(&self) -> Result<(NodeId, Instant)> {
        self.know_installation().await?;
        self.enter().await
    }

    async fn enter(&self) -> Result<(NodeId, Instant)> {
        let since = Instant::now();
        let id = self.messages.shared.jobs.register_node(&self.node).await?;
        tracing::info!(node = %id, name = %self.node.name, lease = ?self.node.lease, "executor started");
        Ok((id, since))
    }

    /// Makes sure that this is no copy of another installation's database, and that the broker's queues are not those of another one.
    async fn know_installation(&self) -> Result<()> {
        let id = self.installation_at_home().await?;
        match (self.messages.broker(), &id) {
            (Some(broker), Some(id)) => broker.belong_to(id).await,
            _ => Ok(()),
        }
    }

    /// Returns the id of the installation, unless this store knows none. A database that is a copy, or was moved, is an error.
    async fn installation_at_home(&self) -> Result<Option<String>> {
        let installation = self.messages.shared.jobs.installation().await?;
        installation.map(|installation| installation.at_home().map(str::to_owned)).transpose()
    }

    /// Ends the old node session and registers a new one. The process is alive and has stopped its work. So jobs that no other node took
    /// yet are released without costing an attempt, and no death is counted.
    pub(crate) async fn register_again(&self, old: NodeId) -> Result<(NodeId, Instant)> {
        // Existing connections may lead to a server that is no longer the right one.
        self.messages.shared.jobs.reconnect();
        // Asked before anything is written there: by now another server may answer.
        let id = self.installation_at_home().await?;
        let released = self.messages.shared.jobs.retire_node(old).await?;
        if released > 0 {
            tracing::info!(node = %old, released, "gave back the jobs of the lost lease");
        }
        // An executor that runs needs no broker, so a mark that was set there since must not stop its work.
        if let (Some(broker), Some(id)) = (self.messages.broker(), &id)
            && let Err(error) = broker.belong_to(id).await
        {
            warn_of!(error, "the executor goes on by the table, without the broker");
        }
        self.enter().await
    }
}
