//! The handle of a broker: it starts the two connections, and what is asked of the broker goes through it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};

use super::address::Addresses;
use super::hub::Hub;
use super::message::{Depth, Outgoing, Published, QueueRole};
use super::mode::BrokerMode;
use super::mode_tracker::Side;
use super::names::Names;
use super::publisher::PublishBatch;
use super::stats::BrokerStats;
use super::subscription::Subscription;
use super::topology::{TopologyItem, TopologyState};
use super::{declare, link, publisher, topology};
use crate::config::BrokerConfig;
use crate::error::{Error, ErrorKind, Result};

/// How long dropping the last handle leaves answers and confirms to go out.
const FAREWELL: Duration = Duration::from_secs(5);
/// The extra time that a publish may take after the deadline for its confirms.
const A_BIT: Duration = Duration::from_secs(2);

/// A broker: two supervised connections. Dropping the last handle closes them.
pub struct Broker {
    pub(super) hub: Arc<Hub>,
    batches: mpsc::UnboundedSender<PublishBatch>,
    runtime: Handle,
}

impl Broker {
    /// Starts to connect, and keeps trying. It needs a tokio runtime.
    ///
    /// # Errors
    /// When the configuration can't be used.
    #[doc(hidden)]
    pub fn start(config: &BrokerConfig) -> Result<Arc<Self>> {
        config.validate()?;
        let addresses = Addresses::new(config)?;
        let runtime =
            Handle::try_current().map_err(|_| Error::config("a broker is started from inside a tokio runtime"))?;
        let hub = Arc::new(Hub::new(config.clone(), addresses));
        for side in [Side::Publish, Side::Consume] {
            hub.links.spawn(link::run(hub.clone(), side));
        }
        let (batches, receiver) = mpsc::unbounded_channel();
        hub.workers.spawn(publisher::run(hub.clone(), receiver));
        Ok(Arc::new(Self { hub, batches, runtime }))
    }

    /// Returns the present mode.
    pub fn mode(&self) -> BrokerMode {
        self.hub.mode_tracker.mode()
    }

    /// Returns whether deliveries go through the broker now. Cheaper than [`mode`](Self::mode), which also returns the reason if they do
    /// not.
    pub fn is_up(&self) -> bool {
        self.hub.mode_tracker.is_up()
    }

    /// Returns a receiver of each change of the mode.
    pub fn changes(&self) -> watch::Receiver<BrokerMode> {
        self.hub.mode_tracker.watch()
    }

    /// Waits until it is up.
    ///
    /// # Errors
    /// When it is not up within `patience`, with the reason.
    pub async fn up_within(&self, patience: Duration) -> Result<()> {
        let mut changes = self.changes();
        if let Ok(Ok(_)) = tokio::time::timeout(patience, changes.wait_for(BrokerMode::is_up)).await {
            return Ok(());
        }
        let why = match self.mode() {
            BrokerMode::Down { why, .. } => why,
            BrokerMode::Blocked(why) => format!("it takes no messages: {why}"),
            BrokerMode::Up(_) => return Ok(()),
        };
        Err(Error::new(
            ErrorKind::Unreachable,
            format!("the broker {} is not up after {patience:?}: {why}", self.hub.addresses),
        ))
    }

    /// Returns what went through the broker so far.
    pub fn stats(&self) -> BrokerStats {
        self.hub.counters.snapshot(self.hub.mode_tracker.changes())
    }

    /// Returns the names of queues and exchanges.
    #[doc(hidden)]
    pub fn names(&self) -> &Names {
        &self.hub.names
    }

    /// Returns the configuration it was started with.
    pub(crate) fn config(&self) -> &BrokerConfig {
        &self.hub.config
    }

    /// Returns the most messages that wait in one of its queues: [`BrokerConfig::depth`].
    #[doc(hidden)]
    pub fn limit(&self) -> u32 {
        self.hub.config.depth
    }

    /// Returns its addresses, for people: without the password.
    #[doc(hidden)]
    pub fn describe(&self) -> String {
        self.hub.addresses.to_string()
    }

    /// Returns what [`apply`](Self::apply) would declare for a configuration: for queues run by jobwright's executors, and for those run by
    /// external workers. Needs no connection.
    #[doc(hidden)]
    pub fn plan(config: &BrokerConfig, queues: &[String], external: &[String]) -> Vec<TopologyItem> {
        let names = Names::new(config.prefix.clone());
        topology::all(config, &names, queues, external).iter().map(|part| part.item(TopologyState::Planned)).collect()
    }

    /// Declares what is missing, and returns the state of each item. Never deletes or changes what exists.
    ///
    /// # Errors
    /// When the broker does not answer. The items show what it refuses.
    #[doc(hidden)]
    pub async fn apply(&self, queues: &[String], external: &[String]) -> Result<Vec<TopologyItem>> {
        declare::apply(&self.hub, topology::all(&self.hub.config, &self.hub.names, queues, external)).await
    }

    /// Returns the state of each item. Whether one differs is visible only with the permission to configure it.
    ///
    /// # Errors
    /// When the broker does not answer, or refuses.
    #[doc(hidden)]
    pub async fn check(&self, queues: &[String], external: &[String]) -> Result<Vec<TopologyItem>> {
        declare::check(&self.hub, topology::all(&self.hub.config, &self.hub.names, queues, external)).await
    }

    /// Waits for outstanding confirms and closes both connections, for at most `patience`.
    pub async fn close(&self, patience: Duration) {
        self.hub.shut_down(patience).await;
    }

    /// Publishes messages and waits for their outcomes, in their order. Takes little longer than `confirm_timeout` at most.
    pub(crate) async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Published> {
        self.publish_now(messages).await
    }

    /// Publishes without waiting: the messages are on their way when this returns, whenever the future is awaited.
    pub(crate) fn publish_now(&self, messages: Vec<Outgoing>) -> impl Future<Output = Vec<Published>> + Send + use<> {
        let count = messages.len();
        let deadline = tokio::time::Instant::now() + self.hub.config.confirm_timeout;
        let (answer, answered) = oneshot::channel();
        let sent = count > 0
            && self.hub.mode_tracker.is_up()
            && self.batches.send(PublishBatch { messages, deadline, answer }).is_ok();
        async move {
            if !sent {
                return vec![Published::NotSent; count];
            }
            match tokio::time::timeout_at(deadline + A_BIT, answered).await {
                Ok(Ok(outcomes)) => outcomes,
                Ok(Err(_)) | Err(_) => vec![Published::Unknown; count],
            }
        }
    }

    /// Receives from a queue, across reconnections, until the subscription is dropped. If a queue of this installation is missing, it is
    /// declared where the configuration allows it, and otherwise waited for.
    pub(crate) fn subscribe(self: &Arc<Self>, queue: String, prefetch: u16) -> Subscription {
        Subscription::start(&self.hub, queue, prefetch, None)
    }

    /// Switches publishing to a new channel as soon as everything on the present one is answered.
    pub(crate) fn renew_channel(&self) {
        self.hub.renew.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    /// Subscribes carefully, for messages that exist nowhere but in the broker. Each new channel takes one message at a time while
    /// redelivered messages arrive, so that a message which crashes its consumer repeatedly does not use up the deliveries of others. It
    /// does so too while messages with more than `legal` bytes arrive, so that those are not gathered in memory. Beside a message that
    /// waits ([`Acks::waits`](super::Acks::waits)) the next arrives.
    pub(crate) fn subscribe_carefully(self: &Arc<Self>, queue: String, prefetch: u16, legal: usize) -> Subscription {
        Subscription::start(&self.hub, queue, prefetch, Some(legal))
    }

    /// Returns the number of messages and consumers of a queue. `None`: there is no such queue.
    pub(crate) async fn depth(&self, queue: &str) -> Result<Option<Depth>> {
        declare::depth(&self.hub, queue).await
    }

    /// Makes sure that the queues of this role exist, where the configuration allows it. Does nothing if they do.
    pub(crate) async fn ensure(&self, role: &QueueRole) -> Result<()> {
        declare::ensure(&self.hub, role).await
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker")
            .field("address", &self.hub.addresses)
            .field("mode", &self.mode())
            .finish_non_exhaustive()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if !self.hub.hang_up.is_cancelled() {
            let hub = self.hub.clone();
            self.runtime.spawn(async move { hub.shut_down(FAREWELL).await });
        }
    }
}
