//! The broker (AMQP 0-9-1, RabbitMQ): two supervised connections, a publisher with confirms, subscriptions, names and wire format. It knows
//! jobs, but no store.

mod acks;
mod address;
mod declare;
mod direct;
mod failure;
mod hub;
mod inspect;
mod link;
mod message;
mod mode;
mod names;
mod prefetch_window;
mod publisher;
mod rejected;
mod session;
mod stats;
mod subscription;
#[doc(hidden)]
pub mod testing;
mod topology;
pub(crate) mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};

pub(crate) use self::acks::Acks;
use self::address::Addresses;
pub(crate) use self::direct::Direct;
use self::hub::Hub;
pub use self::inspect::BrokerQueue;
pub(crate) use self::message::{Depth, Incoming, Outgoing, Published, QueueRole, Tag};
use self::mode::Side;
pub use self::names::Names;
use self::publisher::PublishBatch;
pub use self::rejected::{RejectedMessage, RejectedMessages, RejectedQueue};
pub(crate) use self::subscription::Subscription;
pub use self::topology::{TopologyItem, TopologyKind, TopologyState};
#[doc(hidden)]
pub use self::wire::testing as wire_testing;
pub(crate) use self::wire::{ExternalReport, Refusal, Reply};
use crate::config::BrokerConfig;
use crate::error::{Error, ErrorKind, Result};

/// The state of the connections to the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BrokerMode {
    /// Both connections are up. The number counts how often they came up.
    Up(u64),
    /// Connected, but the broker refuses messages for this reason (a memory or disk alarm).
    Blocked(String),
    /// Not connected.
    Down {
        /// Since when it has been down.
        since: Instant,
        /// The reason, without secrets.
        why: String,
    },
}

impl BrokerMode {
    /// Returns whether deliveries go through the broker.
    pub fn is_up(&self) -> bool {
        matches!(self, Self::Up(_))
    }
}

/// What went through the broker since the start. It counts messages: one that delivers jobs to executors may name several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokerStats {
    /// Changes of the mode.
    pub changes: u64,
    /// Messages confirmed.
    pub confirmed: u64,
    /// Messages refused: the queue was full.
    pub nacked: u64,
    /// Messages returned because no queue took them.
    pub returned: u64,
    /// Messages whose confirm did not arrive.
    pub unknown: u64,
    /// Messages published and not confirmed yet.
    pub unconfirmed: u64,
    /// Messages received.
    pub received: u64,
    /// Messages received that the broker had delivered before.
    pub redelivered: u64,
}

/// How long dropping the last handle leaves answers and confirms to go out.
const FAREWELL: Duration = Duration::from_secs(5);
/// The extra time that a publish may take after the deadline for its confirms.
const A_BIT: Duration = Duration::from_secs(2);

/// A broker: two supervised connections. Dropping the last handle closes them.
pub struct Broker {
    hub: Arc<Hub>,
    batches: mpsc::UnboundedSender<PublishBatch>,
    runtime: Handle,
}

impl Broker {
    /// Starts to connect, and keeps trying. It needs a tokio runtime.
    ///
    /// # Errors
    /// When the configuration can't be used.
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
    pub fn names(&self) -> &Names {
        &self.hub.names
    }

    /// Returns the configuration it was started with.
    pub(crate) fn config(&self) -> &BrokerConfig {
        &self.hub.config
    }

    /// Returns the most messages that wait in one of its queues: [`BrokerConfig::depth`].
    pub fn limit(&self) -> u32 {
        self.hub.config.depth
    }

    /// Returns its addresses, for people: without the password.
    pub fn describe(&self) -> String {
        self.hub.addresses.to_string()
    }

    /// Returns what [`apply`](Self::apply) would declare for a configuration: for queues run by jobwright's executors, and for those run by
    /// external workers. Needs no connection.
    pub fn plan(config: &BrokerConfig, queues: &[String], external: &[String]) -> Vec<TopologyItem> {
        let names = Names::new(config.prefix.clone());
        topology::all(config, &names, queues, external).iter().map(|part| part.item(TopologyState::Planned)).collect()
    }

    /// Declares what is missing, and returns the state of each item. Never deletes or changes what exists.
    ///
    /// # Errors
    /// When the broker does not answer. The items show what it refuses.
    pub async fn apply(&self, queues: &[String], external: &[String]) -> Result<Vec<TopologyItem>> {
        declare::apply(&self.hub, topology::all(&self.hub.config, &self.hub.names, queues, external)).await
    }

    /// Returns the state of each item. Whether one differs is visible only with the permission to configure it.
    ///
    /// # Errors
    /// When the broker does not answer, or refuses.
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
    /// waits ([`Acks::waits`]) the next arrives.
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
