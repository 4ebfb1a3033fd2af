//! How the broker and the database are at the moment, and how much goes through at a time.

use std::sync::{Arc, Weak};

use tokio_util::sync::CancellationToken;

use crate::broker::{Broker, BrokerMode};
use crate::error::Result;
use crate::executor::node::Node;
use crate::job::NodeId;
use crate::message::local::LocalExecutor;
use crate::store::{Hint, Nodes};

/// The most messages taken from a queue of the broker at a time, and the most jobs given to it.
pub(crate) const BATCH: usize = 500;

/// Makes a node follow the broker's mode: its dispatchers scan at once, and its row in the database shows the mode.
pub(crate) async fn follow(
    broker: Arc<Broker>,
    store: Arc<dyn Nodes>,
    node: NodeId,
    executor: Weak<dyn LocalExecutor>,
    quit: CancellationToken,
) {
    let mut changes = broker.changes();
    // The task must not keep the broker: its connections end when the last user drops it.
    drop(broker);
    let follow = async {
        loop {
            let mode = word(&changes.borrow_and_update());
            // Rows hidden for deliveries that will not come are claimed now, and rows that waited for the broker go out.
            if let Some(executor) = executor.upgrade() {
                executor.hint(&Hint::Any);
            }
            if let Err(error) = store.report_broker(node, Some(mode)).await {
                tracing::debug!(%error, "could not record the node's state of the broker");
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = quit.cancelled() => {}
        () = follow => {}
    }
}

/// Returns the mode as a word, for the node's row.
pub(crate) fn word(mode: &BrokerMode) -> &'static str {
    match mode {
        BrokerMode::Up(_) => "up",
        BrokerMode::Blocked(_) => "blocked",
        BrokerMode::Down { .. } => "down",
    }
}

/// Waits until the broker is up.
pub(crate) async fn up(broker: &Broker) {
    let mut changes = broker.changes();
    // An error means that the broker is gone for good, and this executor is about to end too.
    if changes.wait_for(BrokerMode::is_up).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Checks that the database accepts what comes from the broker: a small write (the node's row shows the broker's mode, again), and the
/// locks of larger ones.
pub(crate) async fn alive(node: &Node, broker: &Broker) -> Result<()> {
    loop {
        let mode = word(&broker.mode());
        node.store.report_broker(node.id, Some(mode)).await?;
        // A mode that changed meanwhile must not be overwritten with the old one.
        if word(&broker.mode()) == mode {
            return node.store.takes_writes().await;
        }
    }
}
