//! How a node ends: running handlers may finish, or are cancelled.

use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::executor::node::cancellations::{Cancellations, LET_GO};

/// Why a node session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    Stopped,
    LeaseLost,
}

/// The parts to end of a node that claims no more.
pub(crate) struct Drain<'a> {
    /// Tasks that get jobs to run, or hand them out.
    pub(crate) dispatchers: &'a TaskTracker,
    pub(crate) workers: &'a TaskTracker,
    pub(crate) cancellations: &'a Cancellations,
    /// Cancelled when the lease is lost.
    pub(crate) lost: &'a CancellationToken,
}

impl Drain<'_> {
    /// Lets running handlers finish within the grace period, then cancels them. A lost lease cancels them at once.
    pub(crate) async fn run(&self, end: SessionEnd, grace: Duration) -> SessionEnd {
        let Self { dispatchers, workers, cancellations, lost } = self;
        let in_order = async {
            let _ = timeout(LET_GO, dispatchers.wait()).await;
            workers.close();
            let _ = timeout(grace, workers.wait()).await;
        };
        let end = match end {
            SessionEnd::LeaseLost => SessionEnd::LeaseLost,
            SessionEnd::Stopped => tokio::select! {
                biased;
                () = lost.cancelled() => SessionEnd::LeaseLost,
                () = in_order => SessionEnd::Stopped,
            },
        };
        // Before any further wait: a lost lease ends very soon, and then others may run these jobs.
        cancellations.stop(end == SessionEnd::LeaseLost);
        if end == SessionEnd::LeaseLost {
            let _ = timeout(LET_GO, dispatchers.wait()).await;
            workers.close();
        }
        if timeout(LET_GO, workers.wait()).await.is_err() {
            tracing::warn!(
                handlers = workers.len(),
                "handlers that block their thread did not stop; their outcomes will be refused"
            );
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::executor::node::cancellations::CancelReason;
    use crate::job::{Fence, JobId};

    /// Longer than anything here may take.
    const AGES: Duration = Duration::from_secs(3600);

    /// Drains a node whose handler only waits to be cancelled, with a hand-out that does not end if `stuck`. Its lease is lost after
    /// `lost`, if at all. Returns when the handler was cancelled, and how the node ended.
    async fn drained(end: SessionEnd, stuck: bool, grace: Duration, lost: Option<Duration>) -> (Duration, SessionEnd) {
        let (dispatchers, workers) = (TaskTracker::new(), TaskTracker::new());
        let cancellations = std::sync::Arc::new(Cancellations::new(CancellationToken::new(), AGES));
        let token = CancellationToken::new();
        let begun = Instant::now();
        let handler = {
            let cancellations = cancellations.clone();
            workers.spawn(async move {
                assert_eq!(cancellations.cancelled(Fence::new(JobId::new(), 1)).await, CancelReason::NodeStopping);
                begun.elapsed()
            })
        };
        if stuck {
            dispatchers.spawn(tokio::time::sleep(AGES));
        }
        dispatchers.close();
        if let Some(after) = lost {
            let token = token.clone();
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                token.cancel();
            });
            // Lets a lease that is lost from the start be lost before the drain.
            tokio::task::yield_now().await;
        }
        let drain = Drain { dispatchers: &dispatchers, workers: &workers, cancellations: &cancellations, lost: &token };
        let end = drain.run(end, grace).await;
        (handler.await.unwrap(), end)
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_lease_stops_handlers_though_a_hand_out_does_not_end() {
        let told = drained(SessionEnd::LeaseLost, true, AGES, Some(Duration::ZERO)).await;
        assert_eq!(told, (Duration::ZERO, SessionEnd::LeaseLost));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_lost_during_a_graceful_stop_stops_handlers_at_once() {
        // In the grace period, and while waiting for a hand-out.
        for (stuck, lost) in [(false, 7), (true, 1)] {
            let lost = Duration::from_secs(lost);
            let (told, end) = drained(SessionEnd::Stopped, stuck, AGES, Some(lost)).await;
            assert_eq!(end, SessionEnd::LeaseLost);
            assert!(told < lost + Duration::from_millis(100), "told after {told:?}, stuck: {stuck}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_graceful_stop_grants_its_grace() {
        let grace = Duration::from_secs(20);
        let (told, end) = drained(SessionEnd::Stopped, false, grace, None).await;
        assert_eq!(end, SessionEnd::Stopped);
        assert!(told >= grace && told < grace + Duration::from_secs(1), "{told:?}");
    }
}
