//! Admits jobs of groups, and those under a limit: see `store::admission`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::incarnation::Incarnation;
use super::jitter;
use super::upkeep::UNTOLD;
use crate::backoff::Reconnect;
use crate::error::warn_of;
use crate::store::{AdmitRequest, Hint, Store};

/// Jobs that a round looks at behind one gate, or in one queue.
const BATCH: usize = 500;
/// Jobs of each queue and priority that are raised at a time, when they have waited long.
const AGING_BATCH: usize = 200;

/// Every node runs one. It looks when a job that was admitted has ended here, when a hint or `upkeep.rs` says that there may be
/// something, and when a gate opens by itself.
pub(super) async fn run<S: Store>(node: Arc<Incarnation<S>>, external: Vec<String>, stop: CancellationToken) {
    let (store, gate) = (node.store.clone(), node.in_flight.gate.clone());
    let queues: Vec<String> = node.queues.keys().cloned().collect();
    let kinds: Vec<String> = node.registry.keys().cloned().collect();
    let (wakeup, poll) = (node.messages.shared.wakeup.clone(), node.poll_interval);
    let (limited, limits) = (node.limited.clone(), node.limits.clone());
    // The node must be able to end while this waits.
    drop(node);
    let (mut delays, untold) = (Reconnect::new(poll), poll * UNTOLD);
    let mut next_aging = Instant::now();
    loop {
        let own = AdmitRequest { limit: BATCH, queues: &queues, kinds: Some(&kinds), counting: true };
        let pause = match look(&store, own, &external).await {
            Ok(admitted) => {
                delays.reset();
                limited.store(admitted.limited, Ordering::Relaxed);
                if limits.set(admitted.counted) {
                    // What they had no claim for may start now.
                    wakeup.tell(queues.iter().cloned().map(Hint::Rescan));
                }
                let mut patience = jitter(untold);
                if let Some(aging) = admitted.aging {
                    let pause = (aging / 4).max(Duration::from_secs(1));
                    if Instant::now() >= next_aging {
                        age(&store).await;
                        next_aging = Instant::now() + pause;
                    }
                    patience = patience.min(pause);
                }
                wakeup.tell(admitted.queues.into_iter().map(Hint::Rescan));
                if admitted.more {
                    Duration::ZERO
                } else {
                    // A little late rather than a little early: an early look finds nothing.
                    admitted.next.map_or(untold, |next| next + Duration::from_millis(1)).min(patience)
                }
            }
            Err(error) => {
                warn_of!(error, "jobs could not be admitted; trying again");
                delays.next_delay()
            }
        };
        limits.asked();
        tokio::select! {
            () = stop.cancelled() => return,
            () = gate.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn age(store: &Arc<dyn crate::store::JobStore>) {
    match store.age_jobs(AGING_BATCH).await {
        Ok(0) => {}
        Ok(raised) => tracing::debug!(raised, "jobs that have waited long count as more important"),
        Err(error) => warn_of!(error, "jobs that have waited long could not be raised; trying again"),
    }
}

/// A round for what this node runs itself, and one for queues whose jobs it hands out, of any kind.
async fn look(
    store: &Arc<dyn crate::store::JobStore>,
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
