//! The local handoff: jobs that go straight from a commit in this process to a free slot.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{Notify, OwnedSemaphorePermit};

use crate::executor::metrics::stats::add;
use crate::executor::node::Node;
use crate::executor::node::claim_order::ClaimGuard;
use crate::job::{ClaimNumber, Job, JobId, NodeId};
use crate::message::local::{LocalExecutor, LocalHandoff};
use crate::store::Hint;

impl LocalExecutor for Node {
    fn hint(&self, hint: &Hint) {
        match hint {
            Hint::Queue(name) | Hint::Rescan(name) => {
                if let Some(queue) = self.queues.get(name) {
                    if matches!(hint, Hint::Queue(_)) { queue.wake() } else { queue.wake_to_rescan() }
                } else if let Some(wakeup) = self.queue_wakeups.get(name) {
                    wakeup.notify_one();
                }
                if self.limited.load(Ordering::Relaxed) {
                    self.in_flight.admission_due.notify_one();
                }
            }
            Hint::Timer => self.signals.timers.notify_one(),
            // Not on `Any`: an embedded database sends that after each commit. A poll is soon enough for schedules that other programs put.
            Hint::Schedule => self.signals.schedules.notify_one(),
            Hint::Admission => {
                self.in_flight.admission_due.notify_one();
                self.cancellations.check();
                self.queues.values().for_each(|queue| queue.has_room());
            }
            Hint::Expiry => self.signals.expiry.notify_one(),
            Hint::Any => {
                self.queues.values().for_each(|queue| queue.wake_to_rescan());
                self.queue_wakeups.values().for_each(Notify::notify_one);
                self.signals.timers.notify_one();
                self.signals.expiry.notify_one();
                self.in_flight.admission_due.notify_one();
                self.cancellations.check();
            }
        }
    }

    fn poll(&self) {
        self.cancellations.check();
        self.signals.poll.notify_one();
    }

    fn handoff(&self) -> Option<Box<dyn LocalHandoff>> {
        if self.stop_claiming.is_cancelled() || self.cancel.is_cancelled() {
            return None;
        }
        let claim = self.in_flight.try_begin_claim_beside()?;
        let node = self.this.upgrade()?;
        Some(Box::new(DirectHandoff { claim, node, expected: Vec::new(), settled: false }))
    }
}

/// Slots offered to one commit.
struct DirectHandoff {
    node: Arc<Node>,
    /// Keeps reconciliation from searching for unknown rows between the commit and the delivery.
    claim: ClaimGuard,
    /// The jobs that may be inserted; at the end, those of them that are not delivered.
    expected: Vec<JobId>,
    settled: bool,
}

impl LocalHandoff for DirectHandoff {
    fn node(&self) -> NodeId {
        self.node.id
    }

    fn claim(&self) -> ClaimNumber {
        self.claim.number()
    }

    fn reserve(&self, queue: &str, kind: &str) -> Option<OwnedSemaphorePermit> {
        // A kind with its own limit is claimed from the table instead.
        self.node.kinds.get(kind).filter(|kind| kind.slots.is_none() && !kind.breaker.is_open())?;
        self.node.queues.get(queue)?.try_take_ahead()
    }

    fn expect(&mut self, ids: Vec<JobId>) {
        self.expected = ids;
    }

    fn deliver(mut self: Box<Self>, jobs: Vec<(Job, OwnedSemaphorePermit)>) {
        self.settled = self.expected.is_empty();
        self.node.in_flight.add(jobs.iter().map(|(job, _)| job));
        add(&self.node.counters.handed_over, jobs.len());
        for (job, slot) in jobs {
            self.node.start(job, slot, None, None);
        }
    }

    fn withdraw(mut self: Box<Self>) {
        self.settled = true;
    }
}

impl Drop for DirectHandoff {
    fn drop(&mut self) {
        if !self.settled {
            self.node.in_flight.suspect_of(self.claim.number(), std::mem::take(&mut self.expected));
        }
    }
}
