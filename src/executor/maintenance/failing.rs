//! Keeps the failing tasks in the node's row.

use std::sync::{Arc, Weak};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::executor::node::Node;
use crate::executor::node::failing::{FailingTasks, LASTING};

/// Writes the tasks that fail into the node's row whenever they change, until `quit`. No more often than every five seconds: an error that
/// reads differently each time is not worth more.
pub(crate) async fn run(node: Weak<Node>, failing: Arc<FailingTasks>, quit: CancellationToken) {
    let show = async {
        // The contents of the row; unknown after an error, which may be that of a lost answer.
        let mut shown = Some(None);
        loop {
            let now = Instant::now();
            let tasks = failing.lasting(now);
            // Writing texts as JSON can't fail.
            let text = (!tasks.is_empty()).then(|| serde_json::to_string(&tasks).unwrap_or_default());
            if shown.as_ref() != Some(&text) {
                let Some(node) = node.upgrade() else { return };
                match node.store.report_failing(node.id, text.as_deref()).await {
                    Ok(()) => shown = Some(text),
                    // Often it fails for the reason that it would show.
                    Err(error) => {
                        shown = None;
                        tracing::debug!(%error, "could not record which tasks of the node fail");
                    }
                }
                drop(node);
                tokio::time::sleep(LASTING).await;
                continue;
            }
            let next = async {
                match failing.next_lasting(now) {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = failing.changed() => {}
                () = next => {}
            }
        }
    };
    tokio::select! {
        () = quit.cancelled() => {}
        () = show => {}
    }
}
