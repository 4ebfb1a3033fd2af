//! How a node ends: what runs may finish, or is told to stop.

use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::cancellations::Cancellations;
use super::incarnation::End;

/// How long cancelled handlers have to let go. Async ones do at their next await; one that blocks its thread can't.
pub(super) const LET_GO: Duration = Duration::from_secs(5);

/// What there is to end, of a node that claims no more.
pub(super) struct Drain<'a> {
    /// What gets jobs to run, or hands them out.
    pub(super) dispatchers: &'a TaskTracker,
    pub(super) workers: &'a TaskTracker,
    pub(super) cancellations: &'a Cancellations,
    /// Cancelled when the lease is lost.
    pub(super) lost: &'a CancellationToken,
}

impl Drain<'_> {
    /// Lets running handlers finish within the grace period, then tells them to stop. A lease that is lost, or was already, tells them at once.
    pub(super) async fn run(&self, end: End, grace: Duration) -> End {
        let Self { dispatchers, workers, cancellations, lost } = self;
        let in_order = async {
            let _ = timeout(LET_GO, dispatchers.wait()).await;
            workers.close();
            let _ = timeout(grace, workers.wait()).await;
        };
        let end = match end {
            End::LeaseLost => End::LeaseLost,
            End::Stopped => tokio::select! {
                biased;
                () = lost.cancelled() => End::LeaseLost,
                () = in_order => End::Stopped,
            },
        };
        // Before anything else is waited for: if the lease is lost it is over a moment from now, and then others may run these jobs.
        cancellations.stop();
        if end == End::LeaseLost {
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
    use crate::executor::cancellations::Told;
    use crate::job::{Fence, JobId};

    /// Longer than anything here may take.
    const AGES: Duration = Duration::from_secs(3600);

    /// A node with a handler that does what it is told and nothing else, and perhaps a hand-out that does not end. Its lease is lost after
    /// `lost`, if at all. When the handler was told, and how the node ended.
    async fn drained(end: End, stuck: bool, grace: Duration, lost: Option<Duration>) -> (Duration, End) {
        let (dispatchers, workers) = (TaskTracker::new(), TaskTracker::new());
        let cancellations = std::sync::Arc::new(Cancellations::new(CancellationToken::new(), AGES));
        let token = CancellationToken::new();
        let begun = Instant::now();
        let handler = {
            let cancellations = cancellations.clone();
            workers.spawn(async move {
                assert_eq!(cancellations.told(Fence::new(JobId::new(), 1)).await, Told::Node);
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
            // The one that is lost already is.
            tokio::task::yield_now().await;
        }
        let drain = Drain { dispatchers: &dispatchers, workers: &workers, cancellations: &cancellations, lost: &token };
        let end = drain.run(end, grace).await;
        (handler.await.unwrap(), end)
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_lease_stops_handlers_though_a_hand_out_does_not_end() {
        let told = drained(End::LeaseLost, true, AGES, Some(Duration::ZERO)).await;
        assert_eq!(told, (Duration::ZERO, End::LeaseLost));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_lost_during_a_graceful_stop_stops_handlers_at_once() {
        // In the grace period, and while a hand-out is waited for.
        for (stuck, lost) in [(false, 7), (true, 1)] {
            let lost = Duration::from_secs(lost);
            let (told, end) = drained(End::Stopped, stuck, AGES, Some(lost)).await;
            assert_eq!(end, End::LeaseLost);
            assert!(told < lost + Duration::from_millis(100), "told after {told:?}, stuck: {stuck}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_graceful_stop_grants_its_grace() {
        let grace = Duration::from_secs(20);
        let (told, end) = drained(End::Stopped, false, grace, None).await;
        assert_eq!(end, End::Stopped);
        assert!(told >= grace && told < grace + Duration::from_secs(1), "{told:?}");
    }
}
