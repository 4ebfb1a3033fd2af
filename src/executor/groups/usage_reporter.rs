//! Reports the end of jobs under limits to other nodes when no claim does.
//!
//! Each claim writes how many jobs its node runs under the limits of the claim. A queue without a free slot claims nothing, and neither
//! does one whose jobs no rule covers any more. Jobs that end there are reported by an empty claim.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::error::Result;
use crate::executor::node::Node;
use crate::executor::node::limits::{CountedLimits, Limit};
use crate::store::ClaimRequest;

/// How long the end of a job waits for a claim that reports it, and then for the next try.
const REPORT_DELAY: Duration = Duration::from_millis(20);
const REPORT_RETRY: Duration = Duration::from_secs(1);

/// Reports ended jobs while no dispatcher can: its queue has no free slot, or the node claims no more.
pub(crate) async fn run(node: Weak<Node>, limits: Arc<CountedLimits>, quit: CancellationToken) {
    let mut again = None;
    loop {
        tokio::select! {
            () = quit.cancelled() => return,
            () = limits.ended.notified() => {}
            () = tokio::time::sleep(again.unwrap_or_default()), if again.is_some() => {}
        }
        tokio::select! {
            () = quit.cancelled() => return,
            () = tokio::time::sleep(REPORT_DELAY) => {}
        }
        let Some(node) = node.upgrade() else { return };
        again = None;
        for limit in limits.behind() {
            match report_usage(&node, &limit).await {
                Ok(true) => continue,
                Ok(false) => {
                    tracing::debug!(limit = limit.name, "another transaction has held a limit's lock for too long");
                }
                Err(error) => tracing::debug!(%error, limit = limit.name, "an empty claim failed"),
            }
            // The rest is reported later.
            again = Some(REPORT_RETRY);
        }
    }
}

/// Writes the counts of a limit with an empty claim. `false`: it could not count.
async fn report_usage(node: &Node, limit: &Limit) -> Result<bool> {
    let _group = limit.claiming.lock().await;
    let Some(queue) = limit.queue().filter(|_| limit.is_behind()) else { return Ok(true) };
    let said = [limit.counted()];
    let claim = node.in_flight.begin_claim().await;
    let request = ClaimRequest::new(node.id, claim.number(), &queue.name, 0).kinds(&[]).counted(&said);
    let allowed = node.store.claim(&request).await?.allowed.unwrap_or_default();
    if allowed.unblocked {
        node.in_flight.admission_due.notify_one();
    }
    node.limits.left(&allowed, &node.wakeup);
    if !allowed.written {
        return Ok(false);
    }
    if !allowed.recount.is_empty() {
        limit.restart_count();
    }
    limit.settled(if allowed.recount.is_empty() { said[0].running } else { 0 });
    Ok(true)
}
