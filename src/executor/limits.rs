//! Limits that this node's claims count by themselves: what it runs under each of them.
//!
//! A claim says how many jobs of its queue or kind are in hand here, and takes so many more as all nodes together may run. What ends makes that
//! number smaller, and wakes the dispatcher, whose next claim tells the others.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::incarnation::Incarnation;
use super::queue::Queue;
use crate::error::Result;
use crate::store::{ClaimRequest, Counted, EACH, Scope, Store};

/// How long the end of a job waits for a claim that tells of it, and then for the next try.
const UNTOLD: Duration = Duration::from_millis(20);
const UNTOLD_AGAIN: Duration = Duration::from_secs(1);

/// All that were ever seen here, and which of them are to be counted now.
#[derive(Debug, Default)]
pub(super) struct Limits {
    state: Mutex<State>,
    /// Changes with the rules.
    revision: AtomicU64,
    /// Somebody has looked for rules, or tried to.
    asked: CancellationToken,
    /// A job under one of them has ended.
    ended: Arc<Notify>,
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
    name: String,
    /// Of the jobs that are counted; those of before hold another one.
    running: Mutex<Arc<AtomicUsize>>,
    /// How many the database counts: so many ran when it was last told, or fewer.
    told: AtomicUsize,
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
        self.counter().load(Ordering::Acquire)
    }

    /// What runs now is counted by the database in another way.
    pub(super) fn count_anew(&self) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
        self.told(0, 0);
    }

    /// A dispatcher found no more room for jobs of this queue: it is told of what ends in others too.
    pub(super) fn refused(&self, queue: &str) {
        for (_, waits) in self.queues.iter().filter(|(known, _)| known.name == queue) {
            waits.store(true, Ordering::Release);
        }
    }

    fn ended(&self, queue: &str) {
        for (known, waits) in &self.queues {
            // Its own dispatcher looks in any case, which tells the other nodes.
            if waits.swap(false, Ordering::AcqRel) || known.name == queue {
                known.wake();
            }
        }
        self.some_ended.notify_one();
    }

    /// What a claim has written that said this, with the jobs that it took.
    pub(super) fn told(&self, said: usize, took: usize) {
        self.told.store(said + took, Ordering::Release);
    }

    /// The database counts more than there are.
    fn is_behind(&self) -> bool {
        self.told.load(Ordering::Acquire) > self.running()
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
            })
        });
        Some(limit.clone())
    }

    fn behind(&self) -> Vec<Arc<Limit>> {
        self.lock().limits.values().filter(|limit| limit.is_behind()).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job that runs under limits which its claim counted.
#[derive(Debug)]
pub(super) struct Running {
    queue: Arc<Queue>,
    limits: Vec<(Arc<Limit>, Arc<AtomicUsize>)>,
}

impl Running {
    pub(super) fn new(queue: &Arc<Queue>, limits: &[Arc<Limit>]) -> Self {
        let count = |limit: &Arc<Limit>| {
            let counter = limit.counter();
            counter.fetch_add(1, Ordering::AcqRel);
            (limit.clone(), counter)
        };
        Self { queue: queue.clone(), limits: limits.iter().map(count).collect() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for (limit, counter) in &self.limits {
            counter.fetch_sub(1, Ordering::AcqRel);
            limit.ended(&self.queue.name);
        }
    }
}

/// Tells the others of what has ended here while no dispatcher could: its queue has no free slot, or the node claims no more.
pub(super) async fn tell<S: Store>(node: Weak<Incarnation<S>>, limits: Arc<Limits>, quit: CancellationToken) {
    let mut again = None;
    loop {
        tokio::select! {
            () = quit.cancelled() => return,
            () = limits.ended.notified() => {}
            () = tokio::time::sleep(again.unwrap_or_default()), if again.is_some() => {}
        }
        tokio::select! {
            () = quit.cancelled() => return,
            () = tokio::time::sleep(UNTOLD) => {}
        }
        let Some(node) = node.upgrade() else { return };
        again = None;
        for limit in limits.behind() {
            if let Err(error) = tell_of(&node, &limit).await {
                tracing::debug!(%error, limit = limit.name, "others were not told of jobs that ended; trying again");
                again = Some(UNTOLD_AGAIN);
            }
        }
    }
}

/// By a claim of nothing.
async fn tell_of<S: Store>(node: &Incarnation<S>, limit: &Limit) -> Result<()> {
    let _turn = limit.claiming.lock().await;
    let Some((queue, _)) = limit.queues.first().filter(|_| limit.is_behind()) else { return Ok(()) };
    let said = [limit.counted()];
    let request = ClaimRequest::new(node.id, node.next_claim(), &queue.name, 0).kinds(&[]).counted(&said);
    let allowed = node.store.claim(&request).await?.allowed.unwrap_or_default();
    if allowed.opened {
        node.in_flight.gate.notify_one();
    }
    if allowed.anew.is_empty() {
        limit.told(said[0].running, 0);
    } else {
        limit.count_anew();
    }
    Ok(())
}
