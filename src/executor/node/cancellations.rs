//! Cancels handlers whose job was cancelled or taken away while they run.
//!
//! Nothing is kept per running job: all handlers of a node wait on one notification, which is sent when some of them are meant. Only claims
//! that have been in flight for a while are asked about, so short jobs cost no query.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::executor::node::in_flight::InFlight;
use crate::job::{Fence, NodeId};
use crate::store::Outcomes;

/// How long cancelled handlers have to stop. Async ones stop at their next await; one that blocks its thread can't.
pub(crate) const LET_GO: Duration = Duration::from_secs(5);

/// How often the node looks whether to ask the database about the jobs in flight. Only jobs already in flight at the look before are asked about.
const INTERVAL: Duration = Duration::from_millis(500);
/// A job is asked about again after this part of the time for which it has run, and after [`LONGEST`] at most. A hint comes before.
const PART: u32 = 4;
const LONGEST: Duration = Duration::from_secs(5);

/// Why a handler is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CancelReason {
    /// The node stops, or has lost its lease.
    NodeStopping,
    /// The claim is no longer current: the job was cancelled.
    JobCancelled,
}

/// The handlers that are to stop.
#[derive(Debug, Default)]
pub(crate) struct Cancellations {
    node: CancellationToken,
    /// Whether it stops because its lease is lost.
    lost: AtomicBool,
    /// How long a handler may go on after its cancellation.
    grace: Duration,
    stale: Mutex<HashSet<Fence>>,
    /// Whether `stale` has entries.
    any: AtomicBool,
    /// Whether a hint says that jobs may have been cancelled.
    hinted: AtomicBool,
    changed: Notify,
}

impl Cancellations {
    /// Creates the cancellations of a node. Its handlers stop with this token once [`stop`](Self::stop) is called.
    pub(crate) fn new(node: CancellationToken, grace: Duration) -> Self {
        Self { node, grace, ..Self::default() }
    }

    /// Cancels all handlers.
    pub(crate) fn stop(&self, lost: bool) {
        self.lost.store(lost, Ordering::Release);
        self.node.cancel();
        self.changed.notify_waiters();
    }

    /// Returns whether all handlers stop because the lease is lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Returns why the handler of this claim is to stop, if it is.
    pub(crate) fn look(&self, fence: Fence) -> Option<CancelReason> {
        if self.node.is_cancelled() {
            return Some(CancelReason::NodeStopping);
        }
        self.is_stale(fence).then_some(CancelReason::JobCancelled)
    }

    /// Returns whether the job of this claim was cancelled or taken away. It takes no lock unless some job was.
    fn is_stale(&self, fence: Fence) -> bool {
        self.any.load(Ordering::Acquire) && self.lock().contains(&fence)
    }

    /// Waits until the handler of this claim is to stop.
    pub(crate) async fn cancelled(&self, fence: Fence) -> CancelReason {
        loop {
            let woken_for = self.changed.notified();
            tokio::pin!(woken_for);
            // Listens from here on, so that a notification between the check and the wait is not missed.
            woken_for.as_mut().enable();
            if let Some(told) = self.look(fence) {
                return told;
            }
            woken_for.await;
        }
    }

    /// Cancels the handlers of these claims, and forgets claims that are no longer in flight.
    fn cancel_stale(&self, fences: Vec<Fence>, current: &HashSet<Fence>) {
        let news = !fences.is_empty();
        let mut stale = self.lock();
        stale.retain(|fence| current.contains(fence));
        stale.extend(fences);
        self.any.store(!stale.is_empty(), Ordering::Release);
        drop(stale);
        if news {
            self.changed.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Fence>> {
        self.stale.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that jobs may have been cancelled.
    pub(crate) fn check(&self) {
        self.hinted.store(true, Ordering::Release);
    }

    /// Looks for cancelled jobs among those in flight.
    pub(crate) async fn watch(
        &self,
        store: &dyn Outcomes,
        node: NodeId,
        in_flight: &InFlight,
        stop: CancellationToken,
    ) {
        let mut watched = Watched::default();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
            let current = in_flight.fences();
            let hinted = self.hinted.swap(false, Ordering::AcqRel);
            let mut asked = watched.due(&current, hinted, Instant::now());
            let told = self.lock().clone();
            asked.retain(|fence| !told.contains(fence));
            let stale = if asked.is_empty() { Ok(Vec::new()) } else { store.stale_claims(node, &asked).await };
            match stale {
                Ok(stale) => {
                    if !stale.is_empty() {
                        tracing::info!(
                            jobs = stale.len(),
                            "jobs were cancelled while they ran; their handlers are notified"
                        );
                    }
                    self.cancel_stale(stale, &current);
                }
                Err(error) => {
                    tracing::debug!(%error, "could not look for cancelled jobs; trying again");
                    self.check();
                }
            }
        }
    }
}

/// When each claim in flight was first seen, and when it is asked about next.
#[derive(Debug, Default)]
struct Watched(HashMap<Fence, (Instant, Instant)>);

impl Watched {
    /// Returns the claims to ask about, and forgets those that are no longer in flight. If one is due, all are: that costs no other statement.
    fn due(&mut self, current: &HashSet<Fence>, hinted: bool, now: Instant) -> Vec<Fence> {
        self.0.retain(|fence, _| current.contains(fence));
        let is_due = hinted || self.0.values().any(|(_, next)| *next <= now);
        let asked = if is_due { self.0.keys().copied().collect() } else { Vec::new() };
        if is_due {
            for (since, next) in self.0.values_mut() {
                *next = now + (now.duration_since(*since) / PART).clamp(INTERVAL, LONGEST);
            }
        }
        for fence in current {
            self.0.entry(*fence).or_insert((now, now));
        }
        asked
    }
}

/// The view of the cancellations for one running handler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CancelSignal<'a> {
    pub(crate) cancellations: &'a Cancellations,
    pub(crate) fence: Fence,
}

impl<'a> CancelSignal<'a> {
    /// Returns the token of the whole node.
    pub(crate) fn node(&self) -> &'a CancellationToken {
        &self.cancellations.node
    }

    /// Returns how long a handler may go on after its cancellation.
    pub(crate) fn grace(&self) -> Duration {
        self.cancellations.grace
    }

    /// See [`Cancellations::look`].
    pub(crate) fn look(&self) -> Option<CancelReason> {
        self.cancellations.look(self.fence)
    }

    /// See [`Cancellations::is_stale`].
    pub(crate) fn is_stale(&self) -> bool {
        self.cancellations.is_stale(self.fence)
    }

    /// See [`Cancellations::cancelled`].
    pub(crate) async fn cancelled(&self) -> CancelReason {
        self.cancellations.cancelled(self.fence).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobId;

    fn fence(version: i64) -> Fence {
        Fence::new(JobId::new(), version)
    }

    #[tokio::test]
    async fn only_who_is_meant_is_told() {
        let cancellations = Cancellations::default();
        let (meant, other) = (fence(1), fence(1));
        assert_eq!((cancellations.look(meant), cancellations.look(other)), (None, None));
        let usage_reporter = async {
            tokio::task::yield_now().await;
            cancellations.cancel_stale(vec![meant], &HashSet::from([meant, other]));
        };
        let (told, ()) = tokio::join!(cancellations.cancelled(meant), usage_reporter);
        assert_eq!((told, cancellations.look(other)), (CancelReason::JobCancelled, None));
        let newer = Fence { version: 2, ..meant };
        assert_eq!(cancellations.look(newer), None, "a later claim of the same job is another one");
        cancellations.cancel_stale(Vec::new(), &HashSet::from([other]));
        assert_eq!(cancellations.look(meant), None, "forgotten when it runs no longer");
    }

    /// For a minute.
    #[tokio::test(start_paused = true)]
    async fn a_job_that_has_run_for_long_is_asked_about_less_often() {
        let (mut watched, one) = (Watched::default(), fence(1));
        let begin = Instant::now();
        let looks = (0..120_u32).map(|n| begin + n * INTERVAL);
        let asked: Vec<Duration> =
            looks.filter(|at| !watched.due(&[one].into(), false, *at).is_empty()).map(|at| at - begin).collect();
        assert_eq!(asked[..4], [1, 2, 3, 4].map(|n| n * INTERVAL), "short jobs are not asked about");
        assert!((14..25).contains(&asked.len()), "{asked:?}");
        let last = begin + 120 * INTERVAL;
        assert_eq!(watched.due(&[one].into(), true, last), [one], "a hint does not wait");
        assert!(watched.due(&[].into(), true, last).is_empty(), "it has ended");
    }

    #[tokio::test]
    async fn a_stop_is_for_all() {
        let cancellations = Cancellations::default();
        let stopping = async {
            tokio::task::yield_now().await;
            cancellations.stop(false);
        };
        let (told, ()) = tokio::join!(cancellations.cancelled(fence(1)), stopping);
        assert_eq!(told, CancelReason::NodeStopping);
    }
}
