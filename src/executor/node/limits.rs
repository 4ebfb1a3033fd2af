//! Limits that this node's claims count: the number of jobs it runs under each of them.
//!
//! A claim says how many jobs of its queue or kind are in flight here, and takes only as many more as all nodes together may run. The end
//! of a job lowers that number and wakes the dispatchers that were refused. The next claim reports it to the other nodes, or else an empty
//! claim does (`usage_reporter.rs`).

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::executor::node::queue::Queue;
use crate::message::WakeUp;
use crate::store::{Allowed, Counted, EACH, Hint, Scope};

/// How long claims that leave something to other nodes wait to tell them, so that many are told of with one hint.
const TELLING: Duration = Duration::from_millis(20);

/// All limits ever seen here, and which of them are counted now.
#[derive(Debug, Default)]
pub(crate) struct CountedLimits {
    state: Mutex<State>,
    /// Changes with the rules.
    revision: AtomicU64,
    /// Cancelled once the rules were read, or the read has failed.
    asked: CancellationToken,
    /// Notified when a job under one of the limits has ended.
    pub(crate) ended: Arc<Notify>,
    /// Whether other nodes are being told that they may ask again.
    telling: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    rules: HashSet<(Scope, String)>,
    /// Kept for good: jobs that run under a limit still count when it is set again.
    limits: HashMap<(Scope, String), Arc<Limit>>,
}

/// One limit.
#[derive(Debug)]
pub(crate) struct Limit {
    scope: Scope,
    pub(crate) name: String,
    /// The number of counted jobs. Jobs counted before [`restart_count`](Self::restart_count) hold another counter.
    running: Mutex<Arc<AtomicUsize>>,
    /// The database's count: no fewer than ran when it was written last.
    reported: AtomicUsize,
    /// Whether an empty claim has to follow, whatever is counted.
    owed: AtomicBool,
    /// The number of jobs that have ended.
    ends: AtomicU64,
    /// Locked while a claim under this limit is under way, so that no other claim writes a number without the jobs that this one takes.
    pub(crate) claiming: tokio::sync::Mutex<()>,
    /// The queues whose jobs it covers, and whether their dispatchers wait for a job to end.
    queues: Vec<(Arc<Queue>, AtomicBool)>,
    some_ended: Arc<Notify>,
}

impl Limit {
    pub(crate) fn counted(&self) -> Counted<'_> {
        Counted { scope: self.scope, name: &self.name, running: self.running() }
    }

    pub(crate) fn running(&self) -> usize {
        self.counter().load(Ordering::SeqCst)
    }

    /// Notes that the database counts the present jobs in another way from now on.
    pub(crate) fn restart_count(&self) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
        self.reported(0, 0);
    }

    /// Notes that the limit had no capacity for jobs of this queue. The next end of a job under the limit wakes the queue's dispatcher,
    /// whichever queue that job is of. A job that ended before this call woke no dispatcher, so the caller has to check
    /// [`ends`](Self::ends) afterwards.
    pub(crate) fn refused(&self, queue: &str) {
        for (_, waits) in self.queues.iter().filter(|(known, _)| known.name == queue) {
            waits.store(true, Ordering::SeqCst);
        }
    }

    /// Returns how many jobs have ended under it.
    pub(crate) fn ends(&self) -> u64 {
        self.ends.load(Ordering::SeqCst)
    }

    fn ended(&self) {
        self.ends.fetch_add(1, Ordering::SeqCst);
        for (queue, waits) in &self.queues {
            if waits.swap(false, Ordering::SeqCst) {
                queue.wake();
            }
        }
        self.some_ended.notify_one();
    }

    /// Notes what a claim has written: the number `said`, and the jobs that it took.
    pub(crate) fn reported(&self, said: usize, took: usize) {
        self.reported.store(said + took, Ordering::SeqCst);
    }

    /// Requires an empty claim to follow. It makes earlier claims too late to count, and leaves free capacity to the jobs blocked on the
    /// key.
    pub(crate) fn owe(&self) {
        self.owed.store(true, Ordering::SeqCst);
        self.some_ended.notify_one();
    }

    /// Notes that an empty claim has written the number `said`.
    pub(crate) fn settled(&self, said: usize) {
        self.owed.store(false, Ordering::SeqCst);
        self.reported(said, 0);
    }

    /// Returns whether the database counts more jobs than there are, or may do so.
    pub(crate) fn is_behind(&self) -> bool {
        self.owed.load(Ordering::SeqCst) || self.reported.load(Ordering::SeqCst) > self.running()
    }

    /// Returns one of the queues whose jobs it covers.
    pub(crate) fn queue(&self) -> Option<&Queue> {
        self.queues.first().map(|(queue, _)| &**queue)
    }

    fn counter(&self) -> Arc<AtomicUsize> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl CountedLimits {
    /// Tells other nodes if a claim left some of a limit to them. Claims that do so soon after one another are told of together.
    pub(crate) fn left(self: &Arc<Self>, allowed: &Allowed, wakeup: &Arc<WakeUp>) {
        if allowed.yields && !self.telling.swap(true, Ordering::AcqRel) {
            let (limits, wakeup) = (self.clone(), wakeup.clone());
            tokio::spawn(async move {
                tokio::time::sleep(TELLING).await;
                limits.telling.store(false, Ordering::Release);
                wakeup.notify([Hint::Admission]);
            });
        }
    }

    /// Returns whether there are limits now that claims count.
    pub(crate) fn any(&self) -> bool {
        !self.lock().rules.is_empty()
    }

    /// Sets the present rules. Returns whether they differ from the former ones.
    pub(crate) fn set(&self, rules: Vec<(Scope, String)>) -> bool {
        let rules = rules.into_iter().collect();
        let mut state = self.lock();
        let others = state.rules != rules;
        if others {
            state.rules = rules;
            self.revision.fetch_add(1, Ordering::Release);
        }
        others
    }

    /// Notes that the rules were read, or that the read failed.
    pub(crate) fn asked(&self) {
        self.asked.cancel();
    }

    /// Waits until the rules were read: a claim that knows of no rule walks over all limited jobs.
    pub(crate) async fn known(&self) {
        self.asked.cancelled().await;
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Returns the limit of a queue or kind, if its claims are to count. Whether a rule for all queues covers it, the claim finds out.
    pub(crate) fn of(&self, scope: Scope, name: &str, queues: &HashMap<String, Arc<Queue>>) -> Option<Arc<Limit>> {
        let mut state = self.lock();
        let key = (scope, name.to_owned());
        let of_all = scope == Scope::Queue && state.rules.contains(&(scope, EACH.to_owned()));
        if !of_all && !state.rules.contains(&key) {
            return None;
        }
        let limit = state.limits.entry(key).or_insert_with(|| {
            let queues = queues.iter().filter(|(queue, _)| scope != Scope::Queue || *queue == name);
            Arc::new(Limit {
                scope,
                name: name.to_owned(),
                running: Mutex::default(),
                claiming: tokio::sync::Mutex::default(),
                queues: queues.map(|(_, queue)| (queue.clone(), AtomicBool::new(false))).collect(),
                some_ended: self.ended.clone(),
                reported: AtomicUsize::new(0),
                owed: AtomicBool::new(false),
                ends: AtomicU64::new(0),
            })
        });
        Some(limit.clone())
    }

    /// Returns the limits whose count in the database is too high, or may be.
    pub(crate) fn behind(&self) -> Vec<Arc<Limit>> {
        self.lock().limits.values().filter(|limit| limit.is_behind()).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job that runs under limits which its claim counted.
#[derive(Debug)]
pub(crate) struct Running {
    limits: Vec<(Arc<Limit>, Arc<AtomicUsize>)>,
}

impl Running {
    pub(crate) fn new(limits: &[Arc<Limit>]) -> Self {
        let count = |limit: &Arc<Limit>| {
            let counter = limit.counter();
            counter.fetch_add(1, Ordering::SeqCst);
            (limit.clone(), counter)
        };
        Self { limits: limits.iter().map(count).collect() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for (limit, counter) in &self.limits {
            counter.fetch_sub(1, Ordering::SeqCst);
            limit.ended();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues() -> HashMap<String, Arc<Queue>> {
        ["a", "b"].map(|name| (name.to_owned(), Arc::new(Queue::new(name.to_owned(), 10)))).into()
    }

    /// Makes a limit on a kind with jobs in both queues.
    fn limit(queues: &HashMap<String, Arc<Queue>>) -> Arc<Limit> {
        let limits = CountedLimits::default();
        assert!(limits.set(vec![(Scope::Kind, "k".to_owned())]));
        limits.of(Scope::Kind, "k", queues).unwrap()
    }

    #[test]
    fn who_waits_is_woken_by_what_ends_in_any_queue_and_nobody_else_is() {
        let queues = queues();
        let limit = limit(&queues);
        let running = [(); 2].map(|()| Running::new(std::slice::from_ref(&limit)));
        limit.reported(0, 2);
        limit.refused("a");
        drop(running);
        assert_eq!(limit.ends(), 2);
        assert_eq!((queues["a"].heard(), queues["b"].heard()), (1, 0), "once for both");
    }

    #[test]
    fn after_a_claim_without_an_answer_the_database_may_count_too_many() {
        let queues = queues();
        let limit = limit(&queues);
        assert!(!limit.is_behind());
        limit.owe();
        assert!(limit.is_behind());
        // The lost claim may still run after this.
        limit.reported(0, 0);
        assert!(limit.is_behind());
        limit.settled(0);
        assert!(!limit.is_behind());
    }
}
