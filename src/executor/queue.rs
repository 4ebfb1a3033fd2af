use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How often a flooded queue lets others run before its next claim.
const GATHER_TURNS: usize = 16;

/// No count of signs ever gets there.
const NEVER: u64 = u64::MAX;

/// One queue of this node: its slots, and what its dispatcher has to hear.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) name: String,
    concurrency: usize,
    slots: Arc<Semaphore>,
    wake: Notify,
    /// How many signs of work there were.
    heard: AtomicU64,
    /// One of them was of rows that are not at the end.
    rescan: AtomicBool,
    /// The count of them when the last look began, if that found less than it asked for. As long as it is still the count,
    /// nothing waits: what is sent now is the next to run.
    drained_at: AtomicU64,
}

impl Queue {
    pub(super) fn new(name: String, concurrency: usize) -> Self {
        Self {
            name,
            concurrency,
            slots: Arc::new(Semaphore::new(concurrency)),
            wake: Notify::new(),
            heard: AtomicU64::new(0),
            rescan: AtomicBool::new(false),
            drained_at: AtomicU64::new(NEVER),
        }
    }

    /// How many jobs of it this node runs at the same time.
    pub(super) fn concurrency(&self) -> usize {
        self.concurrency
    }

    /// There may be work anywhere in the queue.
    pub(super) fn wake_to_rescan(&self) {
        self.rescan.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether there was such a sign since this was last asked.
    pub(super) fn take_rescan(&self) -> bool {
        self.rescan.swap(false, Ordering::AcqRel)
    }

    /// There may be work at the end of the queue.
    pub(super) fn wake(&self) {
        self.heard.fetch_add(1, Ordering::AcqRel);
        self.wake.notify_one();
    }

    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// To be taken before a look, for [`looked`](Self::looked).
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Acquire)
    }

    /// What a look found. A sign of work that came while it ran may be of a job that it did not see.
    pub(super) fn looked(&self, heard_before: u64, more: bool) {
        self.drained_at.store(if more { NEVER } else { heard_before }, Ordering::Release);
    }

    /// A free slot for a job that goes past the waiting ones, if there are none.
    pub(super) fn try_take_ahead(&self) -> Option<OwnedSemaphorePermit> {
        if self.drained_at.load(Ordering::Acquire) != self.heard() {
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
            if self.free() >= enough {
                return;
            }
        }
    }

    /// Slots that are free at the moment.
    pub(super) fn free(&self) -> usize {
        self.slots.available_permits()
    }

    /// Waits for a free slot, then takes all that are free, at most `most`.
    pub(super) async fn take(&self, most: usize) -> Option<OwnedSemaphorePermit> {
        let mut taken = self.slots.clone().acquire_owned().await.ok()?;
        if let Some(rest) = self.try_take(most.saturating_sub(1)) {
            taken.merge(rest);
        }
        Some(taken)
    }

    /// Takes all slots that are free, at most `most`. `None`: there is none.
    pub(super) fn try_take(&self, most: usize) -> Option<OwnedSemaphorePermit> {
        let count = u32::try_from(self.free().min(most)).ok().filter(|count| *count > 0)?;
        self.slots.clone().try_acquire_many_owned(count).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent now may only go past the queue if nothing waits in it, however many slots are free.
    #[tokio::test]
    async fn nothing_goes_past_those_who_wait() {
        let queue = Queue::new("q".to_owned(), 4);
        let ahead = || queue.try_take_ahead().is_some();
        assert!(!ahead(), "nobody has looked yet");
        queue.looked(queue.heard(), false);
        assert!(ahead(), "the queue was empty, and nothing came since");
        queue.wake();
        assert!(!ahead(), "something came");
        // It came while the look ran, which may not have seen it.
        let before = queue.heard();
        queue.wake();
        queue.looked(before, false);
        assert!(!ahead());
        queue.looked(queue.heard(), true);
        assert!(!ahead(), "there was more than the look took");
        queue.looked(queue.heard(), false);
        let taken = queue.take(4).await;
        assert!(!ahead(), "no slot is free");
        drop(taken);
        assert!(ahead());
    }
}
