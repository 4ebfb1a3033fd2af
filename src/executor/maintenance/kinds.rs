//! Asks whether this node can run its kinds, and lets those run again that it left alone for a while: see `kinds/breaker.rs`.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::executor::kinds::breaker::{Breaker, Breakers};
use crate::executor::node::Node;

/// How long a check may take. Its file system may hang.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks all checks, so that a starting node takes no job that it can't run.
pub(crate) async fn check_all(breakers: &Breakers) {
    futures_util::future::join_all(breakers.checked().map(passes)).await;
}

/// Asks the check of a kind. Returns whether its jobs may run.
async fn passes(breaker: &Arc<Breaker>) -> bool {
    let asked = breaker.clone();
    // A check may block its thread.
    let asking = tokio::task::spawn_blocking(move || asked.passes());
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(Ok(passes)) => passes,
        Ok(Err(error)) => {
            breaker.cannot_run(&format!("its check failed: {error}"), Instant::now());
            false
        }
        Err(_) => {
            breaker.cannot_run(&format!("its check gave no answer within {PATIENCE:?}"), Instant::now());
            false
        }
    }
}

/// Lets kinds run again when their pauses are over, and keeps what the node's row says of them, until `quit`.
pub(crate) async fn run(node: Weak<Node>, breakers: Arc<Breakers>, quit: CancellationToken) {
    let mut shown = None;
    loop {
        let reported = {
            let Some(node) = node.upgrade() else { return };
            tokio::select! {
                () = quit.cancelled() => return,
                reported = show(&node, &breakers, &mut shown) => reported,
            }
        };
        let again = (!reported).then(|| Instant::now() + PATIENCE);
        let due = async {
            match breakers.next_due().into_iter().chain(again).min() {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = quit.cancelled() => return,
            () = breakers.changed() => continue,
            () = due => {}
        }
        let mut resumed = false;
        for breaker in breakers.due(Instant::now()) {
            if passes(&breaker).await {
                breaker.resume(Instant::now());
                resumed = true;
            }
        }
        let Some(node) = node.upgrade() else { return };
        if resumed {
            // Blocked jobs of the kind were not admitted here meanwhile.
            node.in_flight.admission_due.notify_one();
            node.queues.values().for_each(|queue| queue.wake_to_rescan());
        }
    }
}

/// Makes the node's row show the kinds that it leaves alone, if that has changed. Returns whether the row does.
async fn show(node: &Node, breakers: &Breakers, shown: &mut Option<String>) -> bool {
    let kinds: BTreeMap<_, _> = breakers.left_alone().into_iter().map(|(kind, (reason, _))| (kind, reason)).collect();
    // Writing texts as JSON can't fail.
    let text = (!kinds.is_empty()).then(|| serde_json::to_string(&kinds).unwrap_or_default());
    if text == *shown {
        return true;
    }
    match node.store.report_left_alone(node.id, text.as_deref()).await {
        Ok(()) => *shown = text,
        Err(error) => {
            tracing::debug!(%error, "could not record which kinds the node leaves alone");
            return false;
        }
    }
    true
}
