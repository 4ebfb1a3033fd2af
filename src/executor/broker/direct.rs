//! Results for clients that wait by direct reply-to. They go out beside all others, which wait for none of them.

use tokio::sync::mpsc;

use super::Incarnation;
use super::relay::{End, report};
use super::singly::Row;
use crate::broker::{Broker, Direct, Outgoing};
use crate::store::Store;

/// Publishes what comes, so many by one connection, until the other end is dropped.
pub(super) async fn run<S: Store>(
    node: &Incarnation<S>,
    broker: &Broker,
    mut waiting: mpsc::Receiver<(Row, Outgoing)>,
    most: usize,
) {
    let mut batch = Vec::new();
    while waiting.recv_many(&mut batch, most).await > 0 {
        let mut line = broker.directly();
        for (row, message) in batch.drain(..) {
            let end = match line.publish(&message).await {
                Direct::Delivered => End::Sent,
                Direct::NotSent => End::Later,
                Direct::Lost(why) => End::Never(why),
            };
            report(node, &row, end).await;
        }
        line.close().await;
    }
}
