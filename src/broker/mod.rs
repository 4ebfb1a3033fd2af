//! The broker (AMQP 0-9-1, RabbitMQ): two supervised connections, a publisher with confirms, subscriptions, names and wire
//! format. Knows jobs, and no store.

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
mod publisher;
mod rejected;
mod session;
mod stats;
mod subscription;
#[doc(hidden)]
pub mod testing;
mod topology;
mod width;
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
pub(crate) use self::message::{Depth, Incoming, Lane, Outgoing, Published, Tag};
use self::mode::Side;
pub use self::names::Names;
use self::publisher::Batch;
pub use self::rejected::{RejectedMessage, RejectedMessages, RejectedQueue};
pub(crate) use self::subscription::Subscription;
pub use self::topology::{TopologyItem, TopologyKind, TopologyState};
#[doc(hidden)]
pub use self::wire::testing as wire_testing;
pub(crate) use self::wire::{ExternalReport, Refusal, Reply};
use crate::config::BrokerConfig;
use crate::error::{Error, ErrorKind, Result};

/// How the broker stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BrokerMode {
    /// Both connections are up. The number is that of the time they came up.
    Up(u64),
    /// Connected, and the broker asks for nothing to be published (memory or disk alarm), for this reason.
    Blocked(String),
    /// Not connected.
    Down {
        /// Since when.
        since: Instant,
        /// Why, without secrets.
        why: String,
    },
}

impl BrokerMode {
    /// Deliveries go through the broker.
    pub fn is_up(&self) -> bool {
        matches!(self, Self::Up(_))
    }
}

/// What went through the broker since the start. Messages are counted: one that delivers jobs to executors may name several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokerStats {
    /// Changes of the mode.
    pub changes: u64,
    /// Messages confirmed.
    pub confirmed: u64,
    /// Messages refused: the queue was full.
    pub nacked: u64,
    /// Messages returned: no queue.
    pub returned: u64,
    /// Messages whose confirm did not come.
    pub unknown: u64,
    /// Messages published and not confirmed yet.
    pub unconfirmed: u64,
    /// Messages that came in.
    pub received: u64,
    /// Of these, those the broker had delivered before.
    pub redelivered: u64,
}

/// How long the last handle's drop lets answers and confirms go out.
const FAREWELL: Duration = Duration::from_secs(5);
/// What a publish may take beyond the deadline for its confirms.
const A_BIT: Duration = Duration::from_secs(2);

/// A broker: two supervised connections. Dropping the last handle closes them.
pub struct Broker {
    hub: Arc<Hub>,
    batches: mpsc::UnboundedSender<Batch>,
    runtime: Handle,
}

impl Broker {
    /// Starts to connect, and keeps trying. Needs a tokio runtime.
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

    /// How it stands now.
    pub fn mode(&self) -> BrokerMode {
        self.hub.board.mode()
    }

    /// Deliveries go through it now. Cheaper than [`mode`](Self::mode), which brings the reason if they do not.
    pub fn is_up(&self) -> bool {
        self.hub.board.is_up()
    }

    /// Each change of the mode.
    pub fn changes(&self) -> watch::Receiver<BrokerMode> {
        self.hub.board.watch()
    }

    /// Waits until it is up.
    ///
    /// # Errors
    /// When it is not within `patience`, with the reason.
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

    /// What went through.
    pub fn stats(&self) -> BrokerStats {
        self.hub.counters.snapshot(self.hub.board.changes())
    }

    /// Names of queues and exchanges.
    pub fn names(&self) -> &Names {
        &self.hub.names
    }

    /// How it was started.
    pub(crate) fn config(&self) -> &BrokerConfig {
        &self.hub.config
    }

    /// Most messages that wait in one of its queues: [`BrokerConfig::depth`].
    pub fn limit(&self) -> u32 {
        self.hub.config.depth
    }

    /// What and where, for people: no password.
    pub fn describe(&self) -> String {
        self.hub.addresses.to_string()
    }

    /// What [`apply`](Self::apply) would declare for a configuration: for queues with executors of ours, and for those
    /// with external workers. Needs no connection.
    pub fn plan(config: &BrokerConfig, queues: &[String], external: &[String]) -> Vec<TopologyItem> {
        let names = Names::new(config.prefix.clone());
        topology::all(config, &names, queues, external).iter().map(|part| part.item(TopologyState::Planned)).collect()
    }

    /// Declares what is missing, and says of each part how it stands. Never deletes or changes what is there.
    ///
    /// # Errors
    /// When the broker can't be asked. What it refuses is in the items.
    pub async fn apply(&self, queues: &[String], external: &[String]) -> Result<Vec<TopologyItem>> {
        declare::apply(&self.hub, topology::all(&self.hub.config, &self.hub.names, queues, external)).await
    }

    /// Says of each part how it stands. Whether one differs can only be seen with the right to configure it.
    ///
    /// # Errors
    /// When the broker can't be asked.
    pub async fn check(&self, queues: &[String], external: &[String]) -> Result<Vec<TopologyItem>> {
        declare::check(&self.hub, topology::all(&self.hub.config, &self.hub.names, queues, external)).await
    }

    /// Waits for outstanding confirms and closes both connections, for at most `patience`.
    pub async fn close(&self, patience: Duration) {
        self.hub.shut_down(patience).await;
    }

    /// Publishes and waits for what became of each, in their order. Never longer than `confirm_timeout` and a bit.
    pub(crate) async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Published> {
        self.publish_now(messages).await
    }

    /// The same for who does not want to wait: they are on their way when this returns, whenever the answer is asked for.
    pub(crate) fn publish_now(&self, messages: Vec<Outgoing>) -> impl Future<Output = Vec<Published>> + Send + use<> {
        let count = messages.len();
        let deadline = tokio::time::Instant::now() + self.hub.config.confirm_timeout;
        let (answer, answered) = oneshot::channel();
        let sent =
            count > 0 && self.hub.board.is_up() && self.batches.send(Batch { messages, deadline, answer }).is_ok();
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

    /// Receives from a queue, over all reconnections, until the subscription is dropped. A queue of ours that is missing
    /// is declared if the configuration lets us, else waited for.
    pub(crate) fn subscribe(self: &Arc<Self>, queue: String, prefetch: u16) -> Subscription {
        Subscription::start(&self.hub, queue, prefetch, None)
    }

    /// Publishes on another channel, as soon as everything on this one is answered for.
    pub(crate) fn renew_channel(&self) {
        self.hub.renew.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    /// The same for what exists nowhere but in the broker: on each new channel it takes one message at a time for as long as those come that
    /// were delivered before, so that one which ends its consumer again and again does not spend the deliveries of others, or that have more
    /// than `legal` bytes, so that those are not gathered in memory. Beside one that waits ([`Acks::waits`]) the next comes.
    pub(crate) fn subscribe_carefully(self: &Arc<Self>, queue: String, prefetch: u16, legal: usize) -> Subscription {
        Subscription::start(&self.hub, queue, prefetch, Some(legal))
    }

    /// What waits in a queue, and who consumes it; `None`: there is no such queue.
    pub(crate) async fn depth(&self, queue: &str) -> Result<Option<Depth>> {
        declare::depth(&self.hub, queue).await
    }

    /// Makes sure that the queues of this lane exist, as far as the configuration lets us; does nothing if they do.
    pub(crate) async fn ensure(&self, lane: &Lane) -> Result<()> {
        declare::ensure(&self.hub, lane).await
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
