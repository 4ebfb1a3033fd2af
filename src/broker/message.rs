//! Outgoing and incoming messages. They are visible inside the crate, and to its tests through `testing`.

use std::time::Instant;

use lapin::BasicProperties;
use lapin::types::AMQPValue;

/// A use of the broker, and the queues and exchanges it needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum QueueRole {
    /// Deliveries of this queue to jobwright's executors.
    Deliveries(String),
    /// Jobs of this queue for external workers, and the queue for their reports.
    External(String),
    /// Submissions, and the queue for refused ones.
    Submissions,
    /// Events.
    Events,
}

/// An outgoing message.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The exchange. Empty: the routing key names a queue.
    pub exchange: String,
    /// The routing key for the exchange.
    pub routing_key: String,
    /// Whether the broker returns it if no queue takes it.
    pub mandatory: bool,
    /// Its properties. A mandatory message without a `message_id` gets one.
    pub properties: BasicProperties,
    /// The body.
    pub body: Vec<u8>,
}

/// The result of publishing a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
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

/// The number of messages and consumers of a queue of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// Messages ready to be delivered.
    pub messages: u32,
    /// Consumers of the queue.
    pub consumers: u32,
}

/// An incoming message.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The properties as sent.
    pub properties: BasicProperties,
    /// The body.
    pub body: Vec<u8>,
    /// Whether the broker had delivered it before, to any consumer.
    pub redelivered: bool,
    /// When it arrived.
    pub received: Instant,
    /// The tag for answering.
    pub tag: Tag,
}

impl Incoming {
    /// Returns about how many bytes the message has: its own contents, not what the client needs for it.
    pub(crate) fn weight(&self) -> usize {
        let headers = self.properties.headers().as_ref();
        let texts = headers.into_iter().flat_map(|table| table.inner().iter()).map(|(name, value)| match value {
            AMQPValue::LongString(text) => name.as_str().len() + text.as_bytes().len(),
            _ => name.as_str().len(),
        });
        texts.fold(self.body.len(), usize::saturating_add)
    }
}

/// Names a message to the channel that delivered it. It is meaningless to any other channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    /// The number of the channel, unique over the life of the program.
    pub generation: u64,
    /// The number of the message.
    pub tag: u64,
}
