//! Who waits for the end of which job, in this process. Jobs nobody waits for pay one look at a number.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::job::JobId;

/// A bell for each job that somebody waits for, and how many do.
#[derive(Default)]
pub(crate) struct Bells {
    /// Of all jobs.
    waiters: AtomicUsize,
    bells: Mutex<HashMap<JobId, (Arc<Notify>, usize)>>,
}

impl Bells {
    /// Rings for jobs that ended here. One that nobody hears is nothing: whoever waits looks first, and again from time to time.
    pub(crate) fn ring(&self, ids: impl IntoIterator<Item = JobId>) {
        // Who begins to wait at this very moment looks after it was counted.
        if self.waiters.load(Ordering::SeqCst) == 0 {
            return;
        }
        let bells = self.lock();
        for id in ids {
            if let Some((bell, _)) = bells.get(&id) {
                bell.notify_waiters();
            }
        }
    }

    /// Waits for a job, until what is returned is dropped.
    pub(super) fn wait(self: &Arc<Self>, id: JobId) -> Waiter {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let mut bells = self.lock();
        let (bell, waiters) = bells.entry(id).or_default();
        *waiters += 1;
        Waiter { bells: Arc::clone(self), id, bell: Arc::clone(bell) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, (Arc<Notify>, usize)>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who waits for a job.
pub(super) struct Waiter {
    bells: Arc<Bells>,
    id: JobId,
    /// Rings when the job has ended in this process.
    pub(super) bell: Arc<Notify>,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.bells.waiters.fetch_sub(1, Ordering::SeqCst);
        if let Entry::Occupied(mut entry) = self.bells.lock().entry(self.id) {
            entry.get_mut().1 -= 1;
            if entry.get().1 == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_bell_rings_for_its_job_alone_and_is_gone_with_the_last_who_waits() {
        let bells = Arc::new(Bells::default());
        let (mine, other) = (JobId::new(), JobId::new());
        bells.ring([mine]);
        let (first, second) = (bells.wait(mine), bells.wait(mine));
        let (mut one, mut two) = (Box::pin(first.bell.notified()), Box::pin(second.bell.notified()));
        assert!(!one.as_mut().enable() && !two.as_mut().enable(), "what rang before is over");
        bells.ring([other]);
        assert!(!one.as_mut().enable());
        bells.ring([other, mine]);
        one.await;
        two.await;
        drop(first);
        assert_eq!(bells.lock().len(), 1);
        drop(second);
        assert!(bells.lock().is_empty() && bells.waiters.load(Ordering::SeqCst) == 0);
    }
}
