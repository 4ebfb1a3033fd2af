//! Moves due timers to the waiting jobs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::error::warn_of;
use crate::executor::maintenance::pauses::Pauses;
use crate::message::WakeUp;
use crate::store::{Hint, Maintenance};

/// The most timers moved in one transaction.
const BATCH: usize = 1000;

/// Moves timers until `stop`. Every node runs one. It sleeps until the next timer is due, or a hint or `look_ahead.rs` announces an
/// earlier one.
pub(crate) async fn run(
    store: Arc<dyn Maintenance>,
    wakeup: Arc<WakeUp>,
    hint: Arc<Notify>,
    poll: Duration,
    stop: CancellationToken,
) {
    let mut pauses = Pauses::new(poll, hint, stop);
    loop {
        let pause = match store.promote_due(BATCH).await {
            Ok(promoted) => {
                let blocked = promoted.blocked.then_some(Hint::Admission);
                wakeup.notify(promoted.queues.into_iter().map(Hint::Rescan).chain(blocked));
                if promoted.jobs >= BATCH as u64 { pauses.none() } else { pauses.until_due(promoted.next) }
            }
            Err(error) => {
                warn_of!(error, "due timers could not be moved; trying again");
                pauses.after_failure()
            }
        };
        if !pauses.wait(pause).await {
            return;
        }
    }
}
