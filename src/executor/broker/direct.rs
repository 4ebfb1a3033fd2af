//! Results for clients that wait by direct reply-to. They go out separately, so that other messages wait for none of them.

use tokio::sync::mpsc;

use crate::broker::{Broker, Direct, Outgoing};
use crate::executor::broker::isolating_publisher::Row;
use crate::executor::broker::relay_outcome::{RelayOutcome, record};
use crate::executor::node::Node;

/// Publishes messages as they arrive, up to `most` over one connection, until the sender is dropped.
pub(crate) async fn run(node: &Node, broker: &Broker, mut waiting: mpsc::Receiver<(Row, Outgoing)>, most: usize) {
    let mut batch = Vec::new();
    while waiting.recv_many(&mut batch, most).await > 0 {
        let mut line = broker.directly();
        for (row, message) in batch.drain(..) {
            let end = match line.publish(&message).await {
                Direct::Delivered => RelayOutcome::Sent,
                Direct::NotSent => RelayOutcome::Later,
                Direct::Lost(why) => RelayOutcome::Never(why),
            };
            record(node, &row, end).await;
        }
        line.close().await;
    }
}
