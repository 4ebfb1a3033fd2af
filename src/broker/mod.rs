//! The broker (AMQP 0-9-1, RabbitMQ): two supervised connections, a publisher with confirms, subscriptions, names and wire
//! format. Knows jobs, and no store.

mod names;
pub(crate) mod wire;

use std::sync::Arc;
use std::time::{Duration, Instant};

use lapin::BasicProperties;
use tokio::sync::watch;

pub use self::names::Names;
#[doc(hidden)]
pub use self::wire::testing as wire_testing;
pub(crate) use self::wire::{ExternalReport, Refusal};
use crate::config::BrokerConfig;
use crate::error::Result;

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

/// What went through the broker since the start.
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

/// A broker: two supervised connections. Dropping the last handle closes them.
#[derive(Debug)]
pub struct Broker {}

impl Broker {
    /// Starts to connect, and keeps trying. Needs a tokio runtime.
    ///
    /// # Errors
    /// When the configuration can't be used.
    pub fn start(config: &BrokerConfig) -> Result<Arc<Self>> {
        let _ = config;
        todo!()
    }

    /// How it stands now.
    pub fn mode(&self) -> BrokerMode {
        todo!()
    }

    /// Each change of the mode.
    pub fn changes(&self) -> watch::Receiver<BrokerMode> {
        todo!()
    }

    /// Waits until it is up.
    ///
    /// # Errors
    /// When it is not within `patience`, with the reason.
    pub async fn up_within(&self, patience: Duration) -> Result<()> {
        let _ = patience;
        todo!()
    }

    /// What went through.
    pub fn stats(&self) -> BrokerStats {
        todo!()
    }

    /// Names of queues and exchanges.
    pub fn names(&self) -> &Names {
        todo!()
    }

    /// What and where, for people: no password.
    pub fn describe(&self) -> String {
        todo!()
    }

    /// Waits for outstanding confirms and closes both connections, for at most `patience`.
    pub async fn close(&self, patience: Duration) {
        let _ = patience;
        todo!()
    }

    /// Publishes and waits for what became of each, in their order. Never longer than `confirm_timeout` and a bit.
    pub(crate) async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Published> {
        let _ = messages;
        todo!()
    }

    /// Receives from a queue, over all reconnections, until the subscription is dropped.
    pub(crate) fn subscribe(self: &Arc<Self>, queue: String, prefetch: u16) -> Subscription {
        let _ = (queue, prefetch);
        todo!()
    }

    /// What waits in a queue, and who consumes it; `None`: there is no such queue.
    pub(crate) async fn depth(&self, queue: &str) -> Result<Option<Depth>> {
        let _ = queue;
        todo!()
    }

    /// Makes sure that the queues of this lane exist, as far as the configuration lets us; does nothing if they do.
    pub(crate) async fn ensure(&self, lane: &Lane) -> Result<()> {
        let _ = lane;
        todo!()
    }
}

/// What one part of the work needs at the broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    /// Deliveries of this queue to executors of ours.
    Deliveries(String),
    /// Jobs of this queue for external workers, and where they report.
    External(String),
    /// Submissions, and those that are refused.
    Submissions,
    /// Events.
    Events,
}

/// A message on its way out.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    /// To be returned if no queue takes it.
    pub(crate) mandatory: bool,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Vec<u8>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Published {
    /// The broker has it.
    Acked,
    /// The broker refused it: the queue is full.
    Nacked,
    /// No queue took it.
    Returned,
    /// It was sent, and no answer came: the broker may have it.
    Unknown,
    /// It was not sent: the broker is not up.
    NotSent,
}

/// What waits in a queue of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Depth {
    pub(crate) messages: u32,
    pub(crate) consumers: u32,
}

/// A message that came in.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    pub(crate) properties: BasicProperties,
    pub(crate) body: Vec<u8>,
    pub(crate) redelivered: bool,
    pub(crate) received: Instant,
    pub(crate) tag: Tag,
}

/// Names a message to the channel that delivered it; means nothing to any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) generation: u64,
    pub(crate) tag: u64,
}

/// Messages of one queue.
#[derive(Debug)]
pub(crate) struct Subscription {}

impl Subscription {
    /// Waits for messages and takes up to `most`. 0: the broker handle is gone, and nothing will come any more.
    pub(crate) async fn recv_many(&mut self, into: &mut Vec<Incoming>, most: usize) -> usize {
        let _ = (into, most);
        todo!()
    }

    /// For answering.
    pub(crate) fn acks(&self) -> Acks {
        todo!()
    }
}

/// Answers to messages. Never waits: answers go out in batches, and one for a channel that is gone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Acks {}

impl Acks {
    /// Done with these.
    pub(crate) fn ack(&self, tags: impl IntoIterator<Item = Tag>) {
        let _ = tags.into_iter().count();
        todo!()
    }

    /// Back into the queue.
    pub(crate) fn requeue(&self, tag: Tag) {
        let _ = tag;
        todo!()
    }
}
