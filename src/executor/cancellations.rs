//! Tells handlers whose job was cancelled, or taken away, while they run.
//!
//! Nothing is kept for a job that runs: all handlers of a node listen to one bell, which rings when some of them are meant. Only claims
//! that have been in hand for a while are asked about, so that short jobs cost no question at all.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::in_flight::InFlight;
use crate::job::{Fence, NodeId};
use crate::store::JobStore;

/// How often the database is asked, as long as something is in hand. What was in hand at the last look is asked about.
const INTERVAL: Duration = Duration::from_millis(500);

/// Why a handler is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The node stops, or lost its lease.
    Node,
    /// The claim is no longer current: the job was cancelled.
    Job,
}

/// Who is to stop.
#[derive(Debug, Default)]
pub(super) struct Cancellations {
    node: CancellationToken,
    /// How long one may go on that was told.
    grace: Duration,
    gone: Mutex<HashSet<Fence>>,
    /// There is somebody in `gone`.
    any: AtomicBool,
    bell: Notify,
}

impl Cancellations {
    /// Handlers of a node that stop with this token, once [`stop`](Self::stop) is called.
    pub(super) fn new(node: CancellationToken, grace: Duration) -> Self {
        Self { node, grace, ..Self::default() }
    }

    /// Everybody is to stop.
    pub(super) fn stop(&self) {
        self.node.cancel();
        self.bell.notify_waiters();
    }

    /// Whether the handler of this claim is to stop.
    pub(super) fn look(&self, fence: Fence) -> Option<Told> {
        if self.node.is_cancelled() {
            return Some(Told::Node);
        }
        (self.any.load(Ordering::Acquire) && self.lock().contains(&fence)).then_some(Told::Job)
    }

    /// Waits until it is.
    pub(super) async fn told(&self, fence: Fence) -> Told {
        loop {
            let rung = self.bell.notified();
            tokio::pin!(rung);
            // Listens from here on, so that a ring between the look and the wait is not missed.
            rung.as_mut().enable();
            if let Some(told) = self.look(fence) {
                return told;
            }
            rung.await;
        }
    }

    /// These are to stop; those that are no longer in hand are forgotten.
    fn tell(&self, fences: Vec<Fence>, in_hand: &HashSet<Fence>) {
        let news = !fences.is_empty();
        let mut gone = self.lock();
        gone.retain(|fence| in_hand.contains(fence));
        gone.extend(fences);
        self.any.store(!gone.is_empty(), Ordering::Release);
        drop(gone);
        if news {
            self.bell.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Fence>> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for cancelled jobs among those in hand.
    pub(super) async fn watch(
        &self,
        store: &dyn JobStore,
        node: NodeId,
        in_flight: &InFlight,
        stop: CancellationToken,
    ) {
        let mut before = HashSet::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
            let in_hand = in_flight.fences();
            let told = self.lock().clone();
            let asked: Vec<Fence> =
                in_hand.intersection(&before).filter(|fence| !told.contains(fence)).copied().collect();
            let gone = if asked.is_empty() { Ok(Vec::new()) } else { store.gone(node, &asked).await };
            match gone {
                Ok(gone) => {
                    if !gone.is_empty() {
                        tracing::info!(
                            jobs = gone.len(),
                            "jobs were cancelled while they ran; their handlers are told"
                        );
                    }
                    self.tell(gone, &in_hand);
                }
                Err(error) => tracing::debug!(%error, "could not look for cancelled jobs; trying again"),
            }
            before = in_hand;
        }
    }
}

/// What a running handler has to hear.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop<'a> {
    pub(super) cancellations: &'a Cancellations,
    pub(super) fence: Fence,
}

impl<'a> Stop<'a> {
    /// The whole node's.
    pub(super) fn node(&self) -> &'a CancellationToken {
        &self.cancellations.node
    }

    /// How long one may go on that was told.
    pub(super) fn grace(&self) -> Duration {
        self.cancellations.grace
    }

    /// See [`Cancellations::look`].
    pub(super) fn look(&self) -> Option<Told> {
        self.cancellations.look(self.fence)
    }

    /// See [`Cancellations::told`].
    pub(super) async fn told(&self) -> Told {
        self.cancellations.told(self.fence).await
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
        let telling = async {
            tokio::task::yield_now().await;
            cancellations.tell(vec![meant], &HashSet::from([meant, other]));
        };
        let (told, ()) = tokio::join!(cancellations.told(meant), telling);
        assert_eq!((told, cancellations.look(other)), (Told::Job, None));
        let newer = Fence { version: 2, ..meant };
        assert_eq!(cancellations.look(newer), None, "a later claim of the same job is another one");
        cancellations.tell(Vec::new(), &HashSet::from([other]));
        assert_eq!(cancellations.look(meant), None, "forgotten when it is no longer in hand");
    }

    #[tokio::test]
    async fn a_stop_is_for_all() {
        let cancellations = Cancellations::default();
        let stopping = async {
            tokio::task::yield_now().await;
            cancellations.stop();
        };
        let (told, ()) = tokio::join!(cancellations.told(fence(1)), stopping);
        assert_eq!(told, Told::Node);
    }
}
