//! Dead-letters jobs whose time to live is over.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::backoff::{Reconnect, jitter};
use crate::error::warn_of;
use crate::executor::maintenance::look_ahead::FALLBACK_POLLS;
use crate::message::WakeUp;
use crate::store::{Hint, Maintenance};

/// The most jobs removed in one transaction, in each state.
const BATCH: usize = 500;

/// Expires jobs until `stop`. Every node runs one. It sleeps until the next job expires, or a hint or `maintenance.rs` announces an earlier
/// one.
pub(crate) async fn run(
    store: Arc<dyn Maintenance>,
    wakeup: Arc<WakeUp>,
    hint: Arc<Notify>,
    poll: Duration,
    stop: CancellationToken,
) {
    let (mut delays, fallback) = (Reconnect::new(poll), poll * FALLBACK_POLLS);
    loop {
        let pause = match store.expire_jobs(BATCH).await {
            Ok(expired) => {
                delays.reset();
                if expired.jobs > 0 {
                    tracing::info!(
                        jobs = expired.jobs,
                        "jobs expired before they could start; they are dead letters now"
                    );
                    // The groups and permits they held are free.
                    wakeup.notify([Hint::Admission]);
                }
                // A little late rather than a little early: an early check finds nothing.
                match expired.next {
                    Some(Duration::ZERO) => Duration::ZERO,
                    next => next.map_or(fallback, |next| next + Duration::from_millis(1)).min(jitter(fallback)),
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
