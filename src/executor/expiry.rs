//! Removes jobs whose time to live is over.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::jitter;
use super::upkeep::UNTOLD;
use crate::backoff::Reconnect;
use crate::error::warn_of;
use crate::message::WakeUp;
use crate::store::{Hint, JobStore};

/// Jobs removed in one transaction, in each state.
const BATCH: usize = 500;

/// Every node runs one. It sleeps until the next job expires, or a hint or `upkeep.rs` says that there is an earlier one.
pub(super) async fn run(
    store: Arc<dyn JobStore>,
    wakeup: Arc<WakeUp>,
    hint: Arc<Notify>,
    poll: Duration,
    stop: CancellationToken,
) {
    let (mut delays, untold) = (Reconnect::new(poll), poll * UNTOLD);
    loop {
        let pause = match store.expire_jobs(BATCH).await {
            Ok(expired) => {
                delays.reset();
                if expired.jobs > 0 {
                    tracing::info!(
                        jobs = expired.jobs,
                        "jobs expired before they could start; they are dead letters now"
                    );
                    // What they held is free.
                    wakeup.tell([Hint::Gate]);
                }
                // A little late rather than a little early: an early look finds nothing.
                match expired.next {
                    Some(Duration::ZERO) => Duration::ZERO,
                    next => next.map_or(untold, |next| next + Duration::from_millis(1)).min(jitter(untold)),
                }
            }
            Err(error) => {
                warn_of!(error, "expired jobs could not be removed; trying again");
                delays.next_delay()
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = hint.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}
