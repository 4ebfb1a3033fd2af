//! Tells other nodes of jobs under limits that have ended here, when no claim does.
//!
//! Each claim says how many of its node's jobs run under its limits. A queue without a free slot claims nothing, nor does one whose jobs no rule
//! covers: what ends there is told by a claim of nothing.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::incarnation::Incarnation;
use super::limits::{Limit, Limits};
use crate::error::Result;
use crate::store::{ClaimRequest, Store};

/// How long the end of a job waits for a claim that tells of it, and then for the next try.
const UNTOLD: Duration = Duration::from_millis(20);
const UNTOLD_AGAIN: Duration = Duration::from_secs(1);

/// Tells the others of what has ended here while no dispatcher could: its queue has no free slot, or the node claims no more.
pub(super) async fn tell<S: Store>(node: Weak<Incarnation<S>>, limits: Arc<Limits>, quit: CancellationToken) {
    let mut again = None;
    loop {
        tokio::select! {
            () = quit.cancelled() => return,
            () = limits.ended.notified() => {}
            () = tokio::time::sleep(again.unwrap_or_default()), if again.is_some() => {}
        }
        tokio::select! {
            () = quit.cancelled() => return,
            () = tokio::time::sleep(UNTOLD) => {}
        }
        let Some(node) = node.upgrade() else { return };
        again = None;
        for limit in limits.behind() {
            match tell_of(&node, &limit).await {
                Ok(true) => continue,
                Ok(false) => tracing::debug!(limit = limit.name, "a limit is held by somebody for too long"),
                Err(error) => tracing::debug!(%error, limit = limit.name, "a claim of nothing failed"),
            }
            // What has ended is told later.
            again = Some(UNTOLD_AGAIN);
        }
    }
}

/// By a claim of nothing. `false`: it could not count.
async fn tell_of<S: Store>(node: &Incarnation<S>, limit: &Limit) -> Result<bool> {
    let _turn = limit.claiming.lock().await;
    let Some(queue) = limit.queue().filter(|_| limit.is_behind()) else { return Ok(true) };
    let said = [limit.counted()];
    let request = ClaimRequest::new(node.id, node.next_claim(), &queue.name, 0).kinds(&[]).counted(&said);
    let allowed = node.store.claim(&request).await?.allowed.unwrap_or_default();
    if allowed.opened {
        node.in_flight.gate.notify_one();
    }
    if !allowed.written {
        return Ok(false);
    }
    if !allowed.anew.is_empty() {
        limit.count_anew();
    }
    limit.settled(if allowed.anew.is_empty() { said[0].running } else { 0 });
    Ok(true)
}
