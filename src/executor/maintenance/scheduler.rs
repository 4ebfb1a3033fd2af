//! Sends the jobs of schedules when they are due.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::backoff::jitter;
use crate::error::warn_of;
use crate::executor::maintenance::pauses::Pauses;
use crate::message::WakeUp;
use crate::store::Schedules;
use crate::store::schedules::fire_due;

/// The most jobs sent in one transaction.
const BATCH: usize = 1000;
/// The time until the next check when a due schedule is being fired by another node, or this one can't read it.
const ASIDE: Duration = Duration::from_millis(200);

/// Fires schedules until `stop`. Every node runs one. They need no leader, because the database lets only one of them fire an occurrence.
/// It sleeps until the next schedule is due, or a hint or `look_ahead.rs` announces an earlier one.
pub(crate) async fn run(
    store: Arc<dyn Schedules>,
    wakeup: Arc<WakeUp>,
    hint: Arc<Notify>,
    poll: Duration,
    stop: CancellationToken,
) {
    let mut pauses = Pauses::new(poll, hint, stop);
    let mut aside = ASIDE;
    loop {
        let pause = match fire_due_batch(&store, &wakeup).await {
            Ok(NextFiring::Now) => {
                aside = ASIDE;
                pauses.none()
            }
            Ok(NextFiring::Aside) => {
                aside = (aside * 2).min(poll);
                jitter(aside)
            }
            Ok(NextFiring::In(next)) => {
                aside = ASIDE;
                pauses.until_due(next)
            }
            Err(error) => {
                warn_of!(error, "due schedules could not be fired; trying again");
                pauses.after_failure()
            }
        };
        if !pauses.wait(pause).await {
            return;
        }
    }
}

/// When to check again.
enum NextFiring {
    Now,
    In(Option<Duration>),
    Aside,
}

async fn fire_due_batch(store: &Arc<dyn Schedules>, wakeup: &WakeUp) -> crate::Result<NextFiring> {
    let next = store.next_schedule().await?;
    if next != Some(Duration::ZERO) {
        return Ok(NextFiring::In(next));
    }
    let fired = fire_due(&**store, BATCH).await?;
    wakeup.notify(fired.hints);
    if !fired.overlapped.is_empty() {
        tracing::info!(schedules = ?fired.overlapped, "nothing was sent: the job of the occurrence before is not over");
    }
    if !fired.unfinished.is_empty() {
        tracing::warn!(schedules = ?fired.unfinished, jobs = fired.jobs, "many occurrences were missed; sending their jobs in batches");
    }
    Ok(if fired.schedules > 0 { NextFiring::Now } else { NextFiring::Aside })
}
