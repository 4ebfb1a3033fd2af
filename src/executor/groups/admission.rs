//! Admits jobs of groups, and jobs under a limit: see `store::admission`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Result, warn_of};
use crate::executor::kinds::breaker::Breaker;
use crate::executor::maintenance::periodic::{Next, Periodic};
use crate::executor::node::Node;
use crate::executor::node::limits::CountedLimits;
use crate::message::WakeUp;
use crate::store::{AdmitRequest, Hint, Maintenance, WorkedQueue};

/// The most jobs that an admission pass checks for one key, or in one queue.
const BATCH: usize = 500;
/// How long the change of a rule may take before this node finishes it, and the pause before it tries again.
const FINISHING: Duration = Duration::from_secs(10);
/// The most jobs of each queue and priority that are raised at a time when they have waited long.
const AGING_BATCH: usize = 200;

/// Runs admission passes. Every node does: when a job that was admitted has ended here, when a hint or `look_ahead.rs` says that jobs may be
/// admitted, and when a key is due to be unblocked.
pub(crate) struct Admission {
    store: Arc<dyn Maintenance>,
    wakeup: Arc<WakeUp>,
    /// The queues and kinds whose jobs this node runs itself.
    queues: Vec<String>,
    kinds: Vec<(String, Arc<Breaker>)>,
    /// The queues whose jobs it hands out.
    external: Vec<String>,
    limited: Arc<AtomicBool>,
    limits: Arc<CountedLimits>,
    next_aging: Instant,
    /// When this node finishes the change of a rule that another process left half done.
    finishing: Option<Instant>,
}

impl Admission {
    pub(crate) fn new(node: &Node, external: Vec<String>) -> Self {
        Self {
            store: node.store.clone(),
            wakeup: node.wakeup.clone(),
            queues: node.queues.keys().cloned().collect(),
            kinds: node.kinds.iter().map(|(name, kind)| (name.clone(), kind.breaker.clone())).collect(),
            external,
            limited: node.limited.clone(),
            limits: node.limits.clone(),
            next_aging: Instant::now(),
            finishing: None,
        }
    }

    async fn pass(&mut self) -> Result<Next> {
        // A kind that this node can't run must not hold what others wait for.
        let able = self.kinds.iter().filter(|(_, breaker)| !breaker.is_open());
        let kinds: Vec<String> = able.map(|(name, _)| name.clone()).collect();
        let own = AdmitRequest { limit: BATCH, queues: &self.queues, kinds: Some(&kinds), counting: true };
        let admitted = look(&self.store, own, &self.external).await?;
        self.limited.store(admitted.limited, Ordering::Relaxed);
        if self.limits.set(admitted.counted) {
            // Jobs that the claims did not cover may start now.
            self.wakeup.notify(self.queues.iter().cloned().map(Hint::Rescan));
        }
        let finishing = admitted.unfinished.then(|| *self.finishing.get_or_insert_with(|| Instant::now() + FINISHING));
        self.finishing = finishing;
        if finishing.is_some_and(|at| at <= Instant::now()) {
            tracing::debug!("a change of the rules was left unfinished; finishing it");
            self.store.finish_rule_change().await?;
            self.finishing = Some(Instant::now() + FINISHING);
        }
        // Jobs age in small steps.
        let pause = admitted.aging.map(|aging| (aging / 4).max(Duration::from_secs(1)));
        if let Some(pause) = pause
            && Instant::now() >= self.next_aging
        {
            age(&self.store).await;
            self.next_aging = Instant::now() + pause;
        }
        self.wakeup.notify(admitted.queues.into_iter().map(Hint::Rescan));
        let unfinished = finishing.is_some().then_some(FINISHING);
        Ok(if admitted.more {
            Next::Now
        } else {
            Next::Due(admitted.next.into_iter().chain(pause).chain(unfinished).min())
        })
    }
}

impl Periodic for Admission {
    const FAILED: &'static str = "jobs could not be admitted";

    async fn run(&mut self) -> Result<Next> {
        let next = self.pass().await;
        self.limits.asked();
        next
    }
}

async fn age(store: &Arc<dyn Maintenance>) {
    match store.age_jobs(AGING_BATCH).await {
        Ok(0) => {}
        Ok(raised) => tracing::debug!(raised, "raised the priority of jobs that have waited long"),
        Err(error) => warn_of!(error, "the priority of jobs that have waited long could not be raised; trying again"),
    }
}

/// Runs one admission pass for the jobs that this node runs itself, one for the queues whose jobs it hands out, of any kind, and one for each list of kinds
/// that workers take by SQL. A job that no one takes must not hold what others wait for.
async fn look(
    store: &Arc<dyn Maintenance>,
    own: AdmitRequest<'_>,
    external: &[String],
) -> Result<crate::store::Admitted> {
    let mut admitted = store.admit(&own).await?;
    let mut others: BTreeMap<Option<Vec<String>>, BTreeSet<String>> = BTreeMap::new();
    for WorkedQueue { queue, kinds } in std::mem::take(&mut admitted.worked_by_sql) {
        others.entry(kinds).or_default().insert(queue);
    }
    if !external.is_empty() {
        others.entry(None).or_default().extend(external.iter().cloned());
    }
    for (kinds, queues) in others.into_iter().filter(|_| admitted.limited) {
        let queues: Vec<String> = queues.into_iter().collect();
        let request = AdmitRequest { queues: &queues, kinds: kinds.as_deref(), counting: false, ..own };
        let more = store.admit(&request).await?;
        admitted.jobs += more.jobs;
        admitted.queues.extend(more.queues);
        admitted.more |= more.more;
    }
    Ok(admitted)
}
