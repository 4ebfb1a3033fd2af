//! Limits that this node's claims count by themselves: what it runs under each of them.
//!
//! A claim says how many jobs of its queue or kind are in hand here, and takes so many more as all nodes together may run. The end of a job makes
//! that number smaller, and wakes the dispatchers that were refused. The next claim tells the other nodes, or a claim of nothing (`telling.rs`).

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::queue::Queue;
use crate::store::{Counted, EACH, Scope};

/// All that were ever seen here, and which of them are to be counted now.
#[derive(Debug, Default)]
pub(super) struct Limits {
    state: Mutex<State>,
    /// Changes with the rules.
    revision: AtomicU64,
    /// Somebody has looked for rules, or tried to.
    asked: CancellationToken,
    /// A job under one of them has ended.
    pub(super) ended: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    rules: HashSet<(Scope, String)>,
    /// Kept for good: jobs that run under a limit still count when it is set anew.
    limits: HashMap<(Scope, String), Arc<Limit>>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Limit {
    scope: Scope,
    pub(super) name: String,
    /// Of the jobs that are counted; those of before hold another one.
    running: Mutex<Arc<AtomicUsize>>,
    /// How many the database counts: so many ran when it was last told, or fewer.
    told: AtomicUsize,
    /// A claim of nothing has to follow, whatever is counted.
    owed: AtomicBool,
    /// How many have ended.
    ends: AtomicU64,
    /// Held while a claim under it is under way. So no other one says less than that one is going to take.
    pub(super) claiming: tokio::sync::Mutex<()>,
    /// Those whose jobs it covers, and whether their dispatchers wait for something to end.
    queues: Vec<(Arc<Queue>, AtomicBool)>,
    some_ended: Arc<Notify>,
}

impl Limit {
    pub(super) fn counted(&self) -> Counted<'_> {
        Counted { scope: self.scope, name: &self.name, running: self.running() }
    }

    pub(super) fn running(&self) -> usize {
        self.counter().load(Ordering::SeqCst)
    }

    /// What runs now is counted by the database in another way.
    pub(super) fn count_anew(&self) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
        self.told(0, 0);
    }

    /// A dispatcher found no room for jobs of this queue: the next end of a job under this limit wakes it, whichever queue that job is of. A job that ended
    /// before this has woken nobody, so the dispatcher has to look at [`ends`](Self::ends) afterwards.
    pub(super) fn refused(&self, queue: &str) {
        for (_, waits) in self.queues.iter().filter(|(known, _)| known.name == queue) {
            waits.store(true, Ordering::SeqCst);
        }
    }

    /// How many jobs have ended under it.
    pub(super) fn ends(&self) -> u64 {
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

    /// What a claim has written that said this, with the jobs that it took.
    pub(super) fn told(&self, said: usize, took: usize) {
        self.told.store(said + took, Ordering::SeqCst);
    }

    /// A claim of nothing has to follow, which makes those before it late and leaves all that is free to those at the gate.
    pub(super) fn owe(&self) {
        self.owed.store(true, Ordering::SeqCst);
        self.some_ended.notify_one();
    }

    /// A claim of nothing has written this.
    pub(super) fn settled(&self, said: usize) {
        self.owed.store(false, Ordering::SeqCst);
        self.told(said, 0);
    }

    /// The database counts more than there are, or may do so.
    pub(super) fn is_behind(&self) -> bool {
        self.owed.load(Ordering::SeqCst) || self.told.load(Ordering::SeqCst) > self.running()
    }

    /// One of the queues whose jobs it covers.
    pub(super) fn queue(&self) -> Option<&Queue> {
        self.queues.first().map(|(queue, _)| &**queue)
    }

    fn counter(&self) -> Arc<AtomicUsize> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Limits {
    /// These rules hold now. Whether they are others than before.
    pub(super) fn set(&self, rules: Vec<(Scope, String)>) -> bool {
        let rules = rules.into_iter().collect();
        let mut state = self.lock();
        let others = state.rules != rules;
        if others {
            state.rules = rules;
            self.revision.fetch_add(1, Ordering::Release);
        }
        others
    }

    /// Somebody has looked for rules, or tried to.
    pub(super) fn asked(&self) {
        self.asked.cancel();
    }

    /// Waits for that: a claim that knows of no rule walks over all that is limited.
    pub(super) async fn known(&self) {
        self.asked.cancelled().await;
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// The limit of a queue or kind, if its claims are to count. Whether a rule of all holds for it, the claim finds out.
    pub(super) fn of(&self, scope: Scope, name: &str, queues: &HashMap<String, Arc<Queue>>) -> Option<Arc<Limit>> {
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
                told: AtomicUsize::new(0),
                owed: AtomicBool::new(false),
                ends: AtomicU64::new(0),
            })
        });
        Some(limit.clone())
    }

    /// Those of which the database counts more than there are, or may do so.
    pub(super) fn behind(&self) -> Vec<Arc<Limit>> {
        self.lock().limits.values().filter(|limit| limit.is_behind()).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job that runs under limits which its claim counted.
#[derive(Debug)]
pub(super) struct Running {
    limits: Vec<(Arc<Limit>, Arc<AtomicUsize>)>,
}

impl Running {
    pub(super) fn new(limits: &[Arc<Limit>]) -> Self {
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

    /// A limit of a kind that jobs of both queues have.
    fn limit(queues: &HashMap<String, Arc<Queue>>) -> Arc<Limit> {
        let limits = Limits::default();
        assert!(limits.set(vec![(Scope::Kind, "k".to_owned())]));
        limits.of(Scope::Kind, "k", queues).unwrap()
    }

    #[test]
    fn who_waits_is_woken_by_what_ends_in_any_queue_and_nobody_else_is() {
        let queues = queues();
        let limit = limit(&queues);
        let running = [(); 2].map(|()| Running::new(std::slice::from_ref(&limit)));
        limit.told(0, 2);
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
        // The lost one may still run after this.
        limit.told(0, 0);
        assert!(limit.is_behind());
        limit.settled(0);
        assert!(!limit.is_behind());
    }
}
