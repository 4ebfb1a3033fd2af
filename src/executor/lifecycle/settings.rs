//! What an executor was built with, and its registration.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::broker::Broker;
use crate::codec::Codecs;
use crate::error::{Result, warn_of};
use crate::executor::handler::external_queue::{ExternalQueue, outbound};
use crate::executor::kinds::breaker::Breakers;
use crate::executor::kinds::failure_policy::FailurePolicy;
use crate::executor::kinds::kind::Kinds;
use crate::executor::lifecycle::vitals::Vitals;
use crate::executor::metrics::releases::ReleaseReason;
use crate::executor::metrics::stats::Counters;
use crate::executor::node::alone;
use crate::executor::node::cancellations::Cancellations;
use crate::executor::node::completion::Completions;
use crate::executor::node::failing::FailingTasks;
use crate::executor::node::gathering::Gathering;
use crate::executor::node::in_flight::InFlight;
use crate::executor::node::queue::Queue;
use crate::executor::node::signals::Signals;
use crate::executor::node::{Node, Work};
use crate::job::{Limits, NodeId};
use crate::message::{Sent, WakeUp};
use crate::store::{Hint, JobStore, NodeInfo, Schedules};

/// What an executor was built with.
pub(crate) struct Settings {
    pub(crate) store: Arc<dyn JobStore>,
    pub(crate) schedules: Arc<dyn Schedules>,
    pub(crate) wakeup: Arc<WakeUp>,
    pub(crate) broker: Option<Arc<Broker>>,
    pub(crate) codecs: Codecs,
    pub(crate) job_limits: Limits,
    pub(crate) intake: bool,
    pub(crate) kinds: Arc<Kinds>,
    pub(crate) work: Arc<dyn Work>,
    pub(crate) breakers: Arc<Breakers>,
    /// The tasks of the present node that fail.
    pub(crate) failing: Mutex<Arc<FailingTasks>>,
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
    /// What this process has sent through the executor's message services.
    pub(crate) sent: Sent,
    pub(crate) vitals: Arc<Vitals>,
    /// How long a stop waits for handlers. The caller of the stop may override it.
    pub(crate) grace: Mutex<Duration>,
}

impl Settings {
    /// Returns the tasks of the present node that fail.
    pub(crate) fn failing(&self) -> Arc<FailingTasks> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn grace(&self) -> Duration {
        *self.grace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the state of a registered node, which claims until `stop`. `chainable_kinds`: the kinds that may run next in the slot of another
    /// job of their group.
    pub(crate) fn node(
        &self,
        id: NodeId,
        completions: Completions,
        chainable_kinds: Vec<String>,
        stop: &CancellationToken,
    ) -> Arc<Node> {
        let queue =
            |(name, concurrency): &(String, usize)| (name.clone(), Arc::new(Queue::new(name.clone(), *concurrency)));
        let cancel = CancellationToken::new();
        let in_flight: Arc<InFlight> = Arc::default();
        let admission = in_flight.admission_due.clone();
        let failing = Arc::<FailingTasks>::default();
        *self.failing.lock().unwrap_or_else(PoisonError::into_inner) = failing.clone();
        alone::register(in_flight.busy());
        Arc::new_cyclic(|this| Node {
            id,
            this: this.clone(),
            store: self.store.clone(),
            schedules: self.schedules.clone(),
            broker: self.broker.clone(),
            wakeup: self.wakeup.clone(),
            codecs: self.codecs.clone(),
            job_limits: self.job_limits,
            intake: self.intake,
            poll_interval: self.poll_interval,
            kinds: self.kinds.clone(),
            breakers: self.breakers.clone(),
            failure_policy: self.failure_policy.clone(),
            work: self.work.clone(),
            workers: TaskTracker::new(),
            gathering: Gathering::default(),
            queues: self.queues.iter().map(queue).collect(),
            limited: Arc::default(),
            limits: Arc::default(),
            chainable_kinds,
            in_flight,
            completions,
            counters: self.counters.clone(),
            failing,
            stop_claiming: stop.child_token(),
            refused: CancellationToken::new(),
            cancellations: Arc::new(Cancellations::new(cancel.clone(), self.cancel_grace)),
            cancel,
            signals: Signals { admission, ..Signals::default() },
            queue_wakeups: outbound(&self.external).map(|queue| (queue, Notify::new())).collect(),
        })
    }

    pub(crate) async fn register(&self) -> Result<(NodeId, Instant)> {
        self.know_installation().await?;
        self.enter().await
    }

    async fn enter(&self) -> Result<(NodeId, Instant)> {
        let since = Instant::now();
        let id = self.store.register_node(&self.node).await?;
        tracing::info!(node = %id, name = %self.node.name, lease = ?self.node.lease, "executor started");
        Ok((id, since))
    }

    /// Makes sure that this is no copy of another installation's database, and that the broker's queues are not those of another one.
    async fn know_installation(&self) -> Result<()> {
        let id = self.installation_at_home().await?;
        match (&self.broker, &id) {
            (Some(broker), Some(id)) => broker.belong_to(id).await,
            _ => Ok(()),
        }
    }

    /// Returns the id of the installation, unless this store knows none. A database that is a copy, or was moved, is an error.
    pub(crate) async fn installation_at_home(&self) -> Result<Option<String>> {
        let installation = self.store.installation().await?;
        installation.map(|installation| installation.at_home().map(str::to_owned)).transpose()
    }

    /// Ends the old node session and registers a new one. The process is alive and has stopped its work. So jobs that no other node took
    /// yet are released without costing an attempt, and no death is counted.
    pub(crate) async fn register_again(&self, old: NodeId) -> Result<(NodeId, Instant)> {
        // Existing connections may lead to a server that is no longer the right one.
        self.store.reconnect();
        // Asked before anything is written there: by now another server may answer.
        let id = self.installation_at_home().await?;
        let released = self.store.retire_node(old).await?;
        if released > 0 {
            self.counters.releases.add_many(ReleaseReason::LeaseLost.as_str(), released);
            tracing::info!(node = %old, released, "gave back the jobs of the lost lease");
        }
        // What it ran counted under limits, too.
        if let Err(error) = self.store.notify(&[Hint::Any]).await {
            tracing::debug!(%error, "executors were not woken; they will find the jobs when they poll");
        }
        // An executor that runs needs no broker, so a mark that was set there since must not stop its work.
        if let (Some(broker), Some(id)) = (&self.broker, &id)
            && let Err(error) = broker.belong_to(id).await
        {
            warn_of!(error, "the executor runs jobs from the table, without the broker");
        }
        self.enter().await
    }
}
