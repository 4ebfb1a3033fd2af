//! Lets schedules send their jobs when they are due.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::jitter;
use super::upkeep::UNTOLD;
use crate::backoff::Reconnect;
use crate::error::warn_of;
use crate::message::WakeUp;
use crate::store::JobStore;
use crate::store::schedules::fire_due;

/// Jobs sent in one transaction.
const BATCH: usize = 1000;
/// Until the next look, when something is due and another node has it in hand, or this one can't read it.
const ASIDE: Duration = Duration::from_millis(200);

/// Every node runs one; they need no leader, because the database lets only one of them fire an occurrence. It sleeps until the next
/// schedule is due, or a hint or `upkeep.rs` says that there is an earlier one.
pub(super) async fn run(
    store: Arc<dyn JobStore>,
    wakeup: Arc<WakeUp>,
    hint: Arc<Notify>,
    poll: Duration,
    stop: CancellationToken,
) {
    let (mut delays, untold) = (Reconnect::new(poll), poll * UNTOLD);
    let mut aside = ASIDE;
    loop {
        let pause = match round(&store, &wakeup).await {
            Ok(Next::Now) => {
                aside = ASIDE;
                Duration::ZERO
            }
            Ok(Next::Aside) => {
                aside = (aside * 2).min(poll);
                jitter(aside)
            }
            Ok(Next::In(next)) => {
                delays.reset();
                aside = ASIDE;
                // A little late rather than a little early: an early look finds nothing.
                next.map_or(untold, |next| next + Duration::from_millis(1)).min(jitter(untold))
            }
            Err(error) => {
                warn_of!(error, "due schedules could not be fired; trying again");
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

/// When to look again.
enum Next {
    Now,
    In(Option<Duration>),
    Aside,
}

async fn round(store: &Arc<dyn JobStore>, wakeup: &WakeUp) -> crate::Result<Next> {
    let next = store.next_schedule().await?;
    if next != Some(Duration::ZERO) {
        return Ok(Next::In(next));
    }
    let fired = fire_due(&**store, BATCH).await?;
    wakeup.tell(fired.hints);
    if !fired.overlapped.is_empty() {
        tracing::info!(schedules = ?fired.overlapped, "nothing was sent: the job of the occurrence before is not over");
    }
    if !fired.unfinished.is_empty() {
        tracing::warn!(schedules = ?fired.unfinished, jobs = fired.jobs, "many occurrences were missed; sending their jobs in batches");
    }
    Ok(if fired.schedules > 0 { Next::Now } else { Next::Aside })
}
