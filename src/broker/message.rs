//! Messages on their way out and in. Visible inside the crate, and to its tests by way of `testing`.

use std::time::Instant;

use lapin::BasicProperties;
use lapin::types::AMQPValue;

/// What one part of the work needs at the broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
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
pub struct Outgoing {
    /// Empty: the routing key names a queue.
    pub exchange: String,
    /// For the exchange.
    pub routing_key: String,
    /// To be returned if no queue takes it.
    pub mandatory: bool,
    /// Without a `message_id` it gets one, if it is mandatory.
    pub properties: BasicProperties,
    /// What is sent.
    pub body: Vec<u8>,
}

/// What became of a message.
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

/// What waits in a queue of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// Ready to be delivered.
    pub messages: u32,
    /// Who takes them.
    pub consumers: u32,
}

/// A message that came in.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// As they were sent.
    pub properties: BasicProperties,
    /// What was sent.
    pub body: Vec<u8>,
    /// The broker had delivered it before, to whomever.
    pub redelivered: bool,
    /// When it came.
    pub received: Instant,
    /// For answering.
    pub tag: Tag,
}

impl Incoming {
    /// About how many bytes it is: what it says itself, not what the client needs for it.
    pub(crate) fn weight(&self) -> usize {
        let headers = self.properties.headers().as_ref();
        let texts = headers.into_iter().flat_map(|table| table.inner().iter()).map(|(name, value)| match value {
            AMQPValue::LongString(text) => name.as_str().len() + text.as_bytes().len(),
            _ => name.as_str().len(),
        });
        texts.fold(self.body.len(), usize::saturating_add)
    }
}

/// Names a message to the channel that delivered it; means nothing to any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Which channel, over the life of the program.
    pub generation: u64,
    /// Which message.
    pub tag: u64,
}
