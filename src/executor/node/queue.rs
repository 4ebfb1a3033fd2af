use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::error::Error;

/// How often a backlogged queue yields to other tasks before its next claim.
const GATHER_TURNS: usize = 16;

/// More than the count of signs ever reaches.
const NEVER: u64 = u64::MAX;

/// One queue of this node: its slots, and the signs of work for its dispatcher.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) name: String,
    concurrency: usize,
    slots: Arc<Semaphore>,
    wake: Notify,
    /// The number of signs of work so far.
    heard: AtomicU64,
    /// Whether one of them was about rows elsewhere than at the end.
    rescan: AtomicBool,
    /// How many of them came from polls since the last pass.
    polls: AtomicU64,
    /// Notified when limits may have room.
    room: Notify,
    /// The number of signs when the last pass of claims began, if that found less than it asked for. While the number is still the same, no
    /// job waits, so a job sent now is the next to run.
    drained_at: AtomicU64,
    dispatch: Mutex<Dispatch>,
}

/// The activity of a queue's dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DispatchPhase {
    /// It waits for a sign of work, for the next poll, or after a failure.
    Pauses,
    /// It claims.
    Claims,
    /// All slots are taken, or others that count the same limits claim.
    WaitsForTurn,
}

/// The state of a dispatcher, for observers.
#[derive(Clone, Debug)]
pub(crate) struct Dispatch {
    pub(crate) phase: DispatchPhase,
    /// When that began.
    pub(crate) since: Instant,
    /// Since when all claims fail, and why the last one did.
    pub(crate) failing: Option<(Instant, String)>,
}

impl Queue {
    pub(crate) fn new(name: String, concurrency: usize) -> Self {
        Self {
            name,
            concurrency,
            slots: Arc::new(Semaphore::new(concurrency)),
            wake: Notify::new(),
            heard: AtomicU64::new(0),
            rescan: AtomicBool::new(false),
            polls: AtomicU64::new(0),
            room: Notify::new(),
            drained_at: AtomicU64::new(NEVER),
            dispatch: Mutex::new(Dispatch { phase: DispatchPhase::Pauses, since: Instant::now(), failing: None }),
        }
    }

    /// Returns how many of its jobs this node runs at the same time.
    pub(crate) fn concurrency(&self) -> usize {
        self.concurrency
    }

    /// Notes that there may be work anywhere in the queue.
    pub(crate) fn wake_to_rescan(&self) {
        self.rescan.store(true, Ordering::Release);
        self.wake();
    }

    /// Notes that a poll saw jobs, which may be anywhere in the queue.
    pub(crate) fn wake_by_poll(&self) {
        // Before the sign itself, so that a pass which has heard that knows what it was.
        self.polls.fetch_add(1, Ordering::AcqRel);
        self.wake_to_rescan();
    }

    /// Returns how many such signs there were since the last call.
    pub(crate) fn take_polls(&self) -> u64 {
        self.polls.swap(0, Ordering::AcqRel)
    }

    /// Returns whether there was such a sign since the last call.
    pub(crate) fn take_rescan(&self) -> bool {
        self.rescan.swap(false, Ordering::AcqRel)
    }

    /// Notes that limits may have room.
    pub(crate) fn has_room(&self) {
        self.room.notify_one();
    }

    /// Waits for such a sign.
    pub(crate) async fn room(&self) {
        self.room.notified().await;
    }

    /// Notes that there may be work at the end of the queue.
    pub(crate) fn wake(&self) {
        self.heard.fetch_add(1, Ordering::AcqRel);
        self.wake.notify_one();
    }

    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Returns the number of signs, to be read before a pass of claims and passed to [`looked`](Self::looked).
    pub(crate) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Acquire)
    }

    /// Records the result of a pass of claims. A sign that came during the pass may be about a job that it did not see.
    pub(crate) fn looked(&self, heard_before: u64, more: bool) {
        self.drained_at.store(if more { NEVER } else { heard_before }, Ordering::Release);
    }

    /// Notes that the dispatcher begins this.
    pub(crate) fn enter(&self, phase: DispatchPhase) {
        let mut dispatch = self.dispatch.lock().unwrap_or_else(PoisonError::into_inner);
        (dispatch.phase, dispatch.since) = (phase, Instant::now());
    }

    /// Notes how a claim ended.
    pub(crate) fn claimed(&self, error: Option<&Error>) {
        let mut dispatch = self.dispatch.lock().unwrap_or_else(PoisonError::into_inner);
        dispatch.failing = error.map(|error| {
            let since = dispatch.failing.take().map_or_else(Instant::now, |(since, _)| since);
            (since, error.to_string())
        });
    }

    /// Returns the state of the dispatcher.
    pub(crate) fn dispatch(&self) -> Dispatch {
        self.dispatch.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes a free slot for a job that bypasses the queue, if no job waits in it.
    pub(crate) fn try_take_ahead(&self) -> Option<OwnedSemaphorePermit> {
        if self.drained_at.load(Ordering::Acquire) != self.heard() {
            return None;
        }
        self.slots.clone().try_acquire_owned().ok()
    }

    /// Lets jobs that were just started finish. Short ones then free their slots together, and the next claim is large. If they run for
    /// long, this costs a few turns of the scheduler and no time.
    pub(crate) async fn gather(&self, most: usize) {
        let enough = most.min(self.concurrency / 2);
        for _ in 0..GATHER_TURNS {
            tokio::task::yield_now().await;
            if self.free() >= enough {
                return;
            }
        }
    }

    /// Returns the number of free slots at the moment.
    pub(crate) fn free(&self) -> usize {
        self.slots.available_permits()
    }

    /// Waits for a free slot, then takes all free ones, at most `most`.
    pub(crate) async fn take(&self, most: usize) -> Option<OwnedSemaphorePermit> {
        let mut taken = self.slots.clone().acquire_owned().await.ok()?;
        if let Some(rest) = self.try_take(most.saturating_sub(1)) {
            taken.merge(rest);
        }
        Some(taken)
    }

    /// Takes all free slots, at most `most`. `None`: there is none.
    pub(crate) fn try_take(&self, most: usize) -> Option<OwnedSemaphorePermit> {
        let count = u32::try_from(self.free().min(most)).ok().filter(|count| *count > 0)?;
        self.slots.clone().try_acquire_many_owned(count).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job that is sent now may bypass the queue only if no job waits in it, however many slots are free.
    #[tokio::test]
    async fn nothing_goes_past_those_who_wait() {
        let queue = Queue::new("q".to_owned(), 4);
        let ahead = || queue.try_take_ahead().is_some();
        assert!(!ahead(), "nobody has looked yet");
        queue.looked(queue.heard(), false);
        assert!(ahead(), "the queue was empty, and nothing came since");
        queue.wake();
        assert!(!ahead(), "something came");
        // The sign came during the pass, which may not have seen its job.
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
