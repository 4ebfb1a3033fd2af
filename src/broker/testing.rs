//! What the tests of the broker need and nobody else: not part of the API.

use std::sync::Arc;

use super::Broker;
pub use super::acks::Acks;
pub use super::message::{Depth, Incoming, Lane, Outgoing, Published, Tag};
pub use super::subscription::Subscription;
use crate::error::Result;

/// Publishes and waits for what became of each.
pub async fn publish(broker: &Broker, messages: Vec<Outgoing>) -> Vec<Published> {
    broker.publish(messages).await
}

/// Receives from a queue.
pub fn subscribe(broker: &Arc<Broker>, queue: &str, prefetch: u16) -> Subscription {
    broker.subscribe(queue.to_owned(), prefetch)
}

/// What waits in a queue.
///
/// # Errors
/// When the broker can't be asked.
pub async fn depth(broker: &Broker, queue: &str) -> Result<Option<Depth>> {
    broker.depth(queue).await
}

/// Makes sure that a lane is there.
///
/// # Errors
/// When it is not, and can't be declared.
pub async fn ensure(broker: &Broker, lane: &Lane) -> Result<()> {
    broker.ensure(lane).await
}
