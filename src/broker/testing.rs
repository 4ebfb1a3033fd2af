//! Helpers for the tests of the broker: not part of the API.

use std::sync::Arc;

use super::Broker;
pub use super::acks::Acks;
pub use super::message::{Depth, Incoming, Outgoing, Published, QueueRole, Tag};
pub use super::subscription::Subscription;
use crate::error::Result;

/// Publishes messages and waits for their outcomes.
pub async fn publish(broker: &Broker, messages: Vec<Outgoing>) -> Vec<Published> {
    broker.publish(messages).await
}

/// Receives from a queue.
pub fn subscribe(broker: &Arc<Broker>, queue: &str, prefetch: u16) -> Subscription {
    broker.subscribe(queue.to_owned(), prefetch)
}

/// Returns the number of messages and consumers of a queue.
///
/// # Errors
/// When the broker does not answer, or refuses.
pub async fn depth(broker: &Broker, queue: &str) -> Result<Option<Depth>> {
    broker.depth(queue).await
}

/// Makes a handle one of an executor of this installation.
///
/// # Errors
/// When the queues belong to another one.
pub async fn belong_to(broker: &Broker, installation: &str) -> Result<()> {
    broker.belong_to(installation).await
}

/// Returns the exchanges that mark the queues as those of the installation whose executors use a handle.
pub async fn marks(broker: &Broker) -> Vec<String> {
    broker.marks().await
}

/// Makes sure that the queues and exchanges of a role exist.
///
/// # Errors
/// When they do not exist and can't be declared.
pub async fn ensure(broker: &Broker, role: &QueueRole) -> Result<()> {
    broker.ensure(role).await
}
