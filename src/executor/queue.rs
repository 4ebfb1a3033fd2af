use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How often a flooded queue lets others run before its next claim.
const GATHER_TURNS: usize = 16;

/// One queue of this node: its slots, and what its dispatcher has to hear.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) name: String,
    concurrency: usize,
    slots: Arc<Semaphore>,
    wake: Notify,
    /// The last look found less than it asked for, and nothing was heard since: what is sent now is the next to run.
    drained: AtomicBool,
}

impl Queue {
    pub(super) fn new(name: String, concurrency: usize) -> Self {
        Self {
            name,
            concurrency,
            slots: Arc::new(Semaphore::new(concurrency)),
            wake: Notify::new(),
            drained: AtomicBool::new(false),
        }
    }

    /// There may be work.
    pub(super) fn wake(&self) {
        self.drained.store(false, Ordering::Release);
        self.wake.notify_one();
    }

    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    pub(super) fn set_drained(&self) {
        self.drained.store(true, Ordering::Release);
    }

    /// A free slot for a job that goes past the waiting ones, if there are none.
    pub(super) fn try_take_ahead(&self) -> Option<OwnedSemaphorePermit> {
        if !self.drained.load(Ordering::Acquire) {
            return None;
        }
        self.slots.clone().try_acquire_owned().ok()
    }

    /// Lets what was just started finish: short jobs then free their slots together, and the next claim is large. Long ones
    /// cost a few turns of the scheduler, no time.
    pub(super) async fn gather(&self, most: usize) {
        let enough = most.min(self.concurrency / 2);
        for _ in 0..GATHER_TURNS {
            tokio::task::yield_now().await;
            if self.slots.available_permits() >= enough {
                return;
            }
        }
    }

    /// Waits for a free slot, then takes all that are free, at most `most`.
    pub(super) async fn take(&self, most: usize) -> Option<OwnedSemaphorePermit> {
        let mut taken = self.slots.clone().acquire_owned().await.ok()?;
        let more = self.slots.available_permits().min(most.saturating_sub(1));
        if more > 0
            && let Ok(count) = u32::try_from(more)
            && let Ok(rest) = self.slots.clone().try_acquire_many_owned(count)
        {
            taken.merge(rest);
        }
        Some(taken)
    }
}
