//! Removes what nobody needs any more: old history, results whose time is over, progress of jobs that are gone,
//! ids of submissions.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::jitter;
use crate::error::warn_of;
use crate::store::JobStore;

/// How long the ids of submissions are remembered: a producer that sends the same one again later makes a new job.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 3600);
/// How often an executor looks.
const INTERVAL: Duration = Duration::from_secs(600);
/// Rows removed in one transaction.
const BATCH: usize = 2000;
/// Between two of them, so that a large backlog holds up nobody: about 20,000 rows a second.
const PAUSE: Duration = Duration::from_millis(100);

/// Every node runs one; they need no leader, because rows that another one is removing are passed over.
pub(super) async fn run(store: Arc<dyn JobStore>, stop: CancellationToken) {
    // Not all of them at the start, nor at once.
    let mut pause = jitter(INTERVAL / 10);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = match round(&*store).await {
            Ok(true) => PAUSE,
            Ok(false) => jitter(INTERVAL),
            Err(error) => {
                warn_of!(error, "what is old could not be removed; trying again");
                jitter(INTERVAL / 10)
            }
        };
    }
}

/// One batch of each. Returns whether there may be more.
async fn round(store: &dyn JobStore) -> crate::Result<bool> {
    let history = store.prune_history(store.history_config().retention, BATCH).await?;
    let results = store.prune_results(BATCH).await?;
    let progress = store.prune_progress(BATCH).await?;
    let submissions = store.prune_submissions(REMEMBERED, BATCH).await?;
    Ok([history, results, progress, submissions].into_iter().any(|removed| removed >= BATCH as u64))
}
