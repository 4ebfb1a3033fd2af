//! Dead-letters jobs whose time to live is over.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::error::warn_of;
use crate::executor::maintenance::pauses::Pauses;
use crate::message::WakeUp;
use crate::store::{Hint, Maintenance};

/// The most jobs removed in one transaction, in each state.
const BATCH: usize = 500;

/// Expires jobs until `stop`. Every node runs one. It sleeps until the next job expires, or a hint or `look_ahead.rs` announces an
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
        let pause = match store.expire_jobs(BATCH).await {
            Ok(expired) => {
                if expired.jobs > 0 {
                    tracing::info!(
                        jobs = expired.jobs,
                        "jobs expired before they could start; they are dead letters now"
                    );
                    // The groups and permits they held are free.
                    wakeup.notify([Hint::Admission]);
                }
                match expired.next {
                    Some(Duration::ZERO) => pauses.none(),
                    next => pauses.until_due(next),
                }
            }
            Err(error) => {
                warn_of!(error, "expired jobs could not be removed; trying again");
                pauses.after_failure()
            }
        };
        if !pauses.wait(pause).await {
            return;
        }
    }
}
