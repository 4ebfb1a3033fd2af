//! Moves due timers to the waiting jobs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::backoff::{Reconnect, jitter};
use crate::error::warn_of;
use crate::executor::maintenance::look_ahead::FALLBACK_POLLS;
use crate::message::WakeUp;
use crate::store::{Hint, Maintenance};

/// The most timers moved in one transaction.
const BATCH: usize = 1000;

/// Moves timers until `stop`. Every node runs one. It sleeps until the next timer is due, or a hint or `maintenance.rs` announces an
/// earlier one.
pub(crate) async fn run(
    store: Arc<dyn Maintenance>,
    wakeup: Arc<WakeUp>,
    hint: Arc<Notify>,
    poll: Duration,
    stop: CancellationToken,
) {
    let (mut delays, fallback) = (Reconnect::new(poll), poll * FALLBACK_POLLS);
    loop {
        let pause = match store.promote_due(BATCH).await {
            Ok(promoted) => {
                delays.reset();
                let blocked = promoted.blocked.then_some(Hint::Admission);
                wakeup.notify(promoted.queues.into_iter().map(Hint::Rescan).chain(blocked));
                if promoted.jobs >= BATCH as u64 {
                    Duration::ZERO
                } else {
                    // A little late rather than a little early: an early check finds nothing.
                    promoted.next.map_or(fallback, |next| next + Duration::from_millis(1)).min(jitter(fallback))
                }
            }
            Err(error) => {
                warn_of!(error, "due timers could not be moved; trying again");
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
