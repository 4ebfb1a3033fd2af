use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::{Reconnect, jitter};
use crate::error::warn_of;
use crate::executor::node::alone::{self, Busy};
use crate::executor::node::claim_order::{ClaimGuard, ClaimOrder};
use crate::executor::node::ended_handlers::EndedHandlers;
use crate::executor::node::failing::TaskState;
use crate::job::{ClaimNumber, Fence, Job, JobId, NodeId};
use crate::store::Claims;

#[cfg(test)]
#[cfg(feature = "sqlite")]
mod tests;

/// Its failure, for the log and for the node's row.
pub(crate) const FAILED: &str = "the jobs that the node owns could not be compared with those that it runs";

/// How often a node compares what it owns with what it has in flight, without any suspicion.
const ROUTINE: Duration = Duration::from_secs(600);

/// The jobs this node has in flight, from the answer to a claim until their outcome is recorded.
///
/// The answer to a claim, or to a commit that was to hand over jobs, can get lost. Then this node owns rows that it does not know, and no
/// other node releases them, because this one is alive. So the caller that loses an answer calls [`suspect`](Self::suspect), and
/// [`reconcile`](Self::reconcile) gives back rows that are owned but not known.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// Keyed by claim and not by job: after a cancellation the same job id may be sent again while the first handler still cleans up.
    claims: Mutex<HashMap<(JobId, i64), Flight>>,
    claim_order: ClaimOrder,
    /// Groups that this node holds, or may hold.
    leases: Mutex<HashSet<JobId>>,
    suspicion: Notify,
    suspects: Mutex<Vec<(ClaimNumber, Vec<JobId>)>>,
    suspicion_of: Notify,
    /// Notified when jobs may be admitted: a job that held a group or a permit has ended here.
    pub(crate) admission_due: Arc<Notify>,
    /// Handlers that have ended without an accepted outcome.
    pub(crate) ended_handlers: EndedHandlers,
}

/// What is known of a job in flight.
#[derive(Clone, Copy, Debug)]
struct Flight {
    admitted: bool,
    /// A handler runs it, or will.
    runs: bool,
}

impl InFlight {
    /// Begins a claim. Its guard has to live until the jobs that the claim took were [added](Self::add) here.
    pub(crate) async fn begin_claim(&self) -> ClaimGuard {
        self.claim_order.begin().await
    }

    /// Begins a claim of jobs that run beside others. `None`: not now, because a job runs [alone].
    pub(crate) async fn begin_claim_beside(&self) -> Option<ClaimGuard> {
        let claim = self.claim_order.begin().await;
        // Asked only once the claim has begun: see `alone.rs`.
        alone::is_open().then_some(claim)
    }

    /// Does the same without waiting. `None`: not now, also because this node is reconciling.
    pub(crate) fn try_begin_claim_beside(&self) -> Option<ClaimGuard> {
        let claim = self.claim_order.try_begin()?;
        alone::is_open().then_some(claim)
    }

    pub(crate) fn add<'a>(&self, jobs: impl Iterator<Item = &'a Job>) {
        self.extend(jobs, true);
    }

    /// Adds rows that no handler runs, because they are messages to be sent.
    pub(crate) fn add_messages<'a>(&self, rows: impl Iterator<Item = &'a Job>) {
        self.extend(rows, false);
    }

    fn extend<'a>(&self, jobs: impl Iterator<Item = &'a Job>, runs: bool) {
        self.lock().extend(jobs.map(|job| ((job.id, job.version), Flight { admitted: job.admitted, runs })));
    }

    /// Returns the node as [`alone`] knows it.
    pub(crate) fn busy(self: &Arc<Self>) -> Weak<dyn Busy> {
        let busy: Arc<dyn Busy> = self.clone();
        Arc::downgrade(&busy)
    }

    /// Forgets claims. Other claims of the same jobs stay.
    pub(crate) fn remove(&self, fences: impl Iterator<Item = Fence>) {
        if self.forget(fences) {
            self.admission_due.notify_one();
        }
    }

    /// Forgets claims whose end lets nothing be admitted. Returns whether one of them was admitted.
    pub(crate) fn forget(&self, fences: impl Iterator<Item = Fence>) -> bool {
        let mut unblocks = false;
        let mut claims = self.lock();
        for fence in fences {
            unblocks |= claims.remove(&(fence.id, fence.version)).is_some_and(|flight| flight.admitted);
        }
        unblocks
    }

    /// Forgets claims whose handlers ended without an accepted outcome, and has this reported to the database: their jobs may have been
    /// cancelled while they ran. Only the database knows whether they held anything then, because a limit may have been set after the
    /// claim.
    pub(crate) fn leave(&self, fences: impl Iterator<Item = Fence> + Clone) {
        self.remove(fences.clone());
        self.ended_handlers.add(fences);
    }

    /// Returns a lease by which this node holds a group, or may hold it, until the group is known to be free.
    pub(crate) fn lease(self: &Arc<Self>, id: JobId) -> GroupLease {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        // In this order: what is known before it has a number is spared by every reconciliation that could regard the number as old.
        GroupLease { id, number: self.claim_order.number_of_known_lease(), in_flight: self.clone(), is_free: false }
    }

    /// Returns what reconciliation must leave alone. A lease has no claim number here: its id is unique.
    fn known(&self) -> Vec<Fence> {
        let leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let leases = leases.iter().map(|id| Fence::new(*id, 0));
        self.fences().into_iter().chain(leases).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn fences(&self) -> HashSet<Fence> {
        self.lock().keys().map(|(id, version)| Fence::new(*id, *version)).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(JobId, i64), Flight>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that an answer got lost, so this node may own rows it does not know.
    pub(crate) fn suspect(&self) {
        self.suspicion.notify_one();
    }

    /// Returns whether reconciliation is due.
    #[cfg(test)]
    pub(crate) fn is_suspicious(&self) -> bool {
        futures_util::FutureExt::now_or_never(self.suspicion.notified()).is_some()
    }

    /// Does the same when it is known which rows these can be.
    pub(crate) fn suspect_of(&self, claim: ClaimNumber, ids: Vec<JobId>) {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner).push((claim, ids));
        self.suspicion_of.notify_one();
    }

    /// Gives back rows that are owned but not known. It does so at once after a suspicion, and again after `straggler`, the longest time
    /// that a statement whose answer got lost may still run on the server. It also does so now and then without a suspicion, because a pool
    /// replaces connections silently. `released` is called with their number after jobs were given back: nothing else announces them.
    pub(crate) async fn reconcile(
        &self,
        store: Arc<dyn Claims>,
        node: NodeId,
        straggler: Duration,
        released: impl Fn(u64) + Send + Sync,
        mut state: TaskState,
        stop: CancellationToken,
    ) {
        let (mut again, mut again_of) = (false, Vec::new());
        let mut routine = Instant::now() + jitter(ROUTINE);
        loop {
            let mut named = Vec::new();
            let mut all = false;
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.suspicion.notified() => (all, again) = (true, true),
                () = self.suspicion_of.notified() => {
                    named = std::mem::take(&mut *self.suspects.lock().unwrap_or_else(PoisonError::into_inner));
                    again_of.extend(named.iter().cloned());
                }
                () = tokio::time::sleep(straggler), if again || !again_of.is_empty() => {
                    all = std::mem::take(&mut again);
                    named = std::mem::take(&mut again_of);
                }
                () = tokio::time::sleep_until(routine) => all = true,
            }
            if all {
                routine = Instant::now() + jitter(ROUTINE);
            }
            let mut delays = Reconnect::new(Duration::from_secs(5));
            while let Err(error) = self.give_back(&store, node, &mut named, all, &released).await {
                warn_of!(error, "{FAILED}; trying again");
                state.failed(&error);
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(delays.next_delay()) => {}
                }
            }
            state.succeeded();
        }
    }

    /// Removes from `named` the entries it is done with.
    async fn give_back(
        &self,
        store: &Arc<dyn Claims>,
        node: NodeId,
        named: &mut Vec<(ClaimNumber, Vec<JobId>)>,
        all: bool,
        released: &(impl Fn(u64) + Send + Sync),
    ) -> crate::Result<()> {
        let tell = |count: u64| {
            if count > 0 {
                tracing::warn!(released = count, "released jobs whose claim was lost on the way");
                released(count);
            }
        };
        let (mut locked, mut failed) = (Vec::new(), None);
        while let Some((claim, ids)) = named.last() {
            match store.release_claimed(node, *claim, ids).await {
                Ok(count) => tell(count),
                // A row that another transaction has locked must not keep the others.
                Err(error) if error.is_undecided() => {
                    locked.push((*claim, ids.clone()));
                    failed = Some(error);
                }
                // In an outage each of them would wait for its deadline.
                Err(error) => {
                    named.append(&mut locked);
                    return Err(error);
                }
            }
            named.pop();
        }
        named.append(&mut locked);
        if all {
            tell(self.release_unknown(store, node).await?);
        }
        failed.map_or(Ok(()), Err)
    }

    /// Releases the rows that this node owns and does not have in flight. Returns how many.
    async fn release_unknown(&self, store: &Arc<dyn Claims>, node: NodeId) -> crate::Result<u64> {
        // Claims under way finish first, so that their jobs are known. Later claims have higher numbers and need not wait.
        let no_claims = self.claim_order.none_under_way().await;
        let (before, known) = (no_claims.before, self.known());
        drop(no_claims);
        store.release_unknown(node, &known, Some(before)).await
    }
}

impl Busy for InFlight {
    fn running(&self) -> usize {
        self.lock().values().filter(|flight| flight.runs).count()
    }

    fn claims_ended(&self) -> BoxFuture<'_, ()> {
        async { drop(self.claim_order.none_under_way().await) }.boxed()
    }
}

/// A node's hold on a group. If dropped before the group is known to be free, reconciliation follows.
#[derive(Debug)]
pub(crate) struct GroupLease {
    id: JobId,
    number: ClaimNumber,
    in_flight: Arc<InFlight>,
    is_free: bool,
}

impl GroupLease {
    /// Returns the number of the statement that makes this lease, if that statement claims no jobs.
    pub(crate) fn number(&self) -> ClaimNumber {
        self.number
    }

    /// Notes that the group is free, or was never held.
    pub(crate) fn free(mut self) {
        self.is_free = true;
    }
}

impl Drop for GroupLease {
    fn drop(&mut self) {
        self.in_flight.leases.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        if !self.is_free {
            self.in_flight.suspect();
        }
    }
}
