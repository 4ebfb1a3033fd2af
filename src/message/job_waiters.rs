//! Waiters for the end of jobs, in this process. For a job without waiters, the cost is one atomic load.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::job::JobId;

/// A notifier and the number of waiters, for each job with waiters.
#[derive(Default)]
pub(crate) struct JobWaiters {
    /// Number of waiters for all jobs.
    waiters: AtomicUsize,
    waiters_by_job: Mutex<HashMap<JobId, (Arc<Notify>, usize)>>,
}

impl JobWaiters {
    /// Notifies the waiters of jobs that ended here. A missed notification does no harm: a waiter checks the database first, and again from
    /// time to time.
    pub(crate) fn notify(&self, ids: impl IntoIterator<Item = JobId>) {
        // A waiter that registers after this load checks the database later, and finds that the job has ended.
        if self.waiters.load(Ordering::SeqCst) == 0 {
            return;
        }
        let waiters_by_job = self.lock();
        for id in ids {
            if let Some((signal, _)) = waiters_by_job.get(&id) {
                signal.notify_waiters();
            }
        }
    }

    /// Registers a waiter for a job, until the returned value is dropped.
    pub(super) fn wait(self: &Arc<Self>, id: JobId) -> Waiter {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let mut waiters_by_job = self.lock();
        let (signal, waiters) = waiters_by_job.entry(id).or_default();
        *waiters += 1;
        Waiter { waiters_by_job: Arc::clone(self), id, signal: Arc::clone(signal) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, (Arc<Notify>, usize)>> {
        self.waiters_by_job.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A registered waiter for a job.
pub(super) struct Waiter {
    waiters_by_job: Arc<JobWaiters>,
    id: JobId,
    /// Notified when the job has ended in this process.
    pub(super) signal: Arc<Notify>,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.waiters_by_job.waiters.fetch_sub(1, Ordering::SeqCst);
        if let Entry::Occupied(mut entry) = self.waiters_by_job.lock().entry(self.id) {
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
    async fn a_waiter_hears_of_its_job_alone_and_is_removed_with_the_last_one() {
        let waiters_by_job = Arc::new(JobWaiters::default());
        let (mine, other) = (JobId::new(), JobId::new());
        waiters_by_job.notify([mine]);
        let (first, second) = (waiters_by_job.wait(mine), waiters_by_job.wait(mine));
        let (mut one, mut two) = (Box::pin(first.signal.notified()), Box::pin(second.signal.notified()));
        assert!(!one.as_mut().enable() && !two.as_mut().enable(), "what rang before is over");
        waiters_by_job.notify([other]);
        assert!(!one.as_mut().enable());
        waiters_by_job.notify([other, mine]);
        one.await;
        two.await;
        drop(first);
        assert_eq!(waiters_by_job.lock().len(), 1);
        drop(second);
        assert!(waiters_by_job.lock().is_empty() && waiters_by_job.waiters.load(Ordering::SeqCst) == 0);
    }
}
