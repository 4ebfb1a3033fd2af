//! Admits jobs of groups, and jobs under a limit: see `store::admission`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::warn_of;
use crate::executor::maintenance::pauses::Pauses;
use crate::executor::session::node_session::NodeSession;
use crate::store::{AdmitRequest, Hint, Maintenance, Store};

/// The most jobs that an admission pass checks for one key, or in one queue.
const BATCH: usize = 500;
/// The most jobs of each queue and priority that are raised at a time when they have waited long.
const AGING_BATCH: usize = 200;

/// Runs admission passes until `stop`. Every node runs one. A pass runs when a job that was admitted has ended here, when a hint or
/// `look_ahead.rs` says that jobs may be admitted, and when a key is due to be unblocked.
pub(crate) async fn run<S: Store>(node: Arc<NodeSession<S>>, external: Vec<String>, stop: CancellationToken) {
    let admission_due = node.in_flight.admission_due.clone();
    let store: Arc<dyn Maintenance> = node.store.clone();
    let queues: Vec<String> = node.queues.keys().cloned().collect();
    let kinds: Vec<String> = node.registry.keys().cloned().collect();
    let (wakeup, poll) = (node.messages.shared.wakeup.clone(), node.poll_interval);
    let (limited, limits) = (node.limited.clone(), node.limits.clone());
    // The node must be able to end while this task waits.
    drop(node);
    let mut pauses = Pauses::new(poll, admission_due, stop);
    let mut next_aging = Instant::now();
    loop {
        let own = AdmitRequest { limit: BATCH, queues: &queues, kinds: Some(&kinds), counting: true };
        let pause = match look(&store, own, &external).await {
            Ok(admitted) => {
                limited.store(admitted.limited, Ordering::Relaxed);
                if limits.set(admitted.counted) {
                    // Jobs that the claims did not cover may start now.
                    wakeup.notify(queues.iter().cloned().map(Hint::Rescan));
                }
                let mut patience = Duration::MAX;
                if let Some(aging) = admitted.aging {
                    let pause = (aging / 4).max(Duration::from_secs(1));
                    if Instant::now() >= next_aging {
                        age(&store).await;
                        next_aging = Instant::now() + pause;
                    }
                    patience = pause;
                }
                wakeup.notify(admitted.queues.into_iter().map(Hint::Rescan));
                if admitted.more { pauses.none() } else { pauses.until_due(admitted.next).min(patience) }
            }
            Err(error) => {
                warn_of!(error, "jobs could not be admitted; trying again");
                pauses.after_failure()
            }
        };
        limits.asked();
        if !pauses.wait(pause).await {
            return;
        }
    }
}

async fn age(store: &Arc<dyn Maintenance>) {
    match store.age_jobs(AGING_BATCH).await {
        Ok(0) => {}
        Ok(raised) => tracing::debug!(raised, "jobs that have waited long count as more important"),
        Err(error) => warn_of!(error, "jobs that have waited long could not be raised; trying again"),
    }
}

/// Runs one admission pass for the jobs that this node runs itself, and one for queues whose jobs it hands out, of any kind.
async fn look(
    store: &Arc<dyn Maintenance>,
    own: AdmitRequest<'_>,
    external: &[String],
) -> crate::Result<crate::store::Admitted> {
    let mut admitted = store.admit(&own).await?;
    if admitted.limited && !external.is_empty() {
        let more = store.admit(&AdmitRequest { queues: external, kinds: None, counting: false, ..own }).await?;
        admitted.jobs += more.jobs;
        admitted.queues.extend(more.queues);
        admitted.more |= more.more;
    }
    Ok(admitted)
}
