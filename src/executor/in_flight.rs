use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, RwLock};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ends::Ends;
use super::jitter;
use crate::backoff::Reconnect;
use crate::error::warn_of;
use crate::job::{ClaimCounter, ClaimNumber, Fence, Job, JobId, NodeId};
use crate::store::JobStore;

#[cfg(test)]
#[cfg(feature = "sqlite")]
mod tests;

/// How often a node compares what it owns with what it has in hand though nothing seems wrong.
const ROUTINE: Duration = Duration::from_secs(600);

/// What this node has in hand, from the answer to a claim until its outcome is recorded.
///
/// The answer to a claim (or to a commit that was to hand jobs over) can get lost. Then this node owns rows that it does not
/// know, and because it is alive nobody else will release them. So whoever loses an answer calls [`suspect`](Self::suspect),
/// and [`reconcile`](Self::reconcile) gives back what is owned and not known.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// By claim and not by job: who cancels a job may send its id again while the first handler still tidies up. True: it was admitted.
    claims: Mutex<HashMap<(JobId, i64), bool>>,
    /// Held for reading from before a claim is sent until its jobs are known here; for writing while reconciling.
    pub(super) claiming: Arc<RwLock<()>>,
    /// Groups that are held, or may be.
    leases: Mutex<HashSet<JobId>>,
    suspicion: Notify,
    suspects: Mutex<Vec<(ClaimNumber, Vec<JobId>)>>,
    suspicion_of: Notify,
    /// Something may be admitted: what held a group or a place under a limit has ended here.
    pub(super) gate: Arc<Notify>,
    /// Handlers that have ended without an outcome that was accepted.
    pub(super) ends: Ends,
}

impl InFlight {
    pub(super) fn add<'a>(&self, jobs: impl Iterator<Item = &'a Job>) {
        self.lock().extend(jobs.map(|job| ((job.id, job.version), job.admitted)));
    }

    /// Forgets claims; other claims of the same jobs stay.
    pub(super) fn remove(&self, fences: impl Iterator<Item = Fence>) {
        if self.forget(fences) {
            self.gate.notify_one();
        }
    }

    /// The same of claims that have left nothing for others to admit. Whether one of them was admitted.
    pub(super) fn forget(&self, fences: impl Iterator<Item = Fence>) -> bool {
        let mut opens = false;
        let mut claims = self.lock();
        for fence in fences {
            opens |= claims.remove(&(fence.id, fence.version)).unwrap_or(false);
        }
        opens
    }

    /// Forgets claims whose handlers have ended without an outcome that was accepted: the database is told of it, because their jobs may have been
    /// cancelled while they ran. Whether they held anything then, only the database knows: a limit may have come after the claim.
    pub(super) fn leave(&self, fences: impl Iterator<Item = Fence> + Clone) {
        self.remove(fences.clone());
        self.ends.add(fences);
    }

    /// A group is held by this lease, or may be from now on: until it is known to be free.
    pub(super) fn lease(self: &Arc<Self>, id: JobId) -> Lease {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        Lease { id, in_flight: self.clone(), is_free: false }
    }

    /// What a look at what the node owns is to leave alone. A lease has no number of its own to be told by, its id is nobody else's.
    fn known(&self) -> Vec<Fence> {
        let leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let leases = leases.iter().map(|id| Fence::new(*id, 0));
        self.fences().into_iter().chain(leases).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn fences(&self) -> HashSet<Fence> {
        self.lock().keys().map(|(id, version)| Fence::new(*id, *version)).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(JobId, i64), bool>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer got lost: this node may own what it does not know.
    pub(super) fn suspect(&self) {
        self.suspicion.notify_one();
    }

    /// Whether somebody is to look.
    #[cfg(test)]
    pub(super) fn is_suspicious(&self) -> bool {
        futures_util::FutureExt::now_or_never(self.suspicion.notified()).is_some()
    }

    /// The same where it is known which rows that can be.
    pub(super) fn suspect_of(&self, claim: ClaimNumber, ids: Vec<JobId>) {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner).push((claim, ids));
        self.suspicion_of.notify_one();
    }

    /// Gives back what is owned and not known, after a suspicion: at once, and again after `straggler`, the longest time a statement whose
    /// answer got lost may still run on the server. And now and then without one: a pool replaces connections without a word.
    pub(super) async fn reconcile(
        &self,
        store: Arc<dyn JobStore>,
        node: NodeId,
        claims: &ClaimCounter,
        straggler: Duration,
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
            while let Err(error) = self.give_back(&store, node, claims, &mut named, all).await {
                warn_of!(error, "could not give back what got lost on the way; trying again");
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(delays.next_delay()) => {}
                }
            }
        }
    }

    /// Takes out of `named` what it is done with.
    async fn give_back(
        &self,
        store: &Arc<dyn JobStore>,
        node: NodeId,
        claims: &ClaimCounter,
        named: &mut Vec<(ClaimNumber, Vec<JobId>)>,
        all: bool,
    ) -> crate::Result<()> {
        while let Some((claim, ids)) = named.last() {
            told(store.release_claimed(node, *claim, ids).await?);
            named.pop();
        }
        if all {
            self.release_unknown(store, node, claims).await?;
        }
        Ok(())
    }

    pub(super) async fn release_unknown(
        &self,
        store: &Arc<dyn JobStore>,
        node: NodeId,
        claims: &ClaimCounter,
    ) -> crate::Result<()> {
        // What is under way comes first, so that it is known. Claims that begin after this have later numbers, and need not wait.
        let nobody_claims = self.claiming.write().await;
        let before = claims.next();
        let known = self.known();
        drop(nobody_claims);
        told(store.release_unknown(node, &known, Some(before)).await?);
        Ok(())
    }
}

/// A node's hold on a group. Dropped before it is known to be free, somebody looks.
#[derive(Debug)]
pub(super) struct Lease {
    id: JobId,
    in_flight: Arc<InFlight>,
    is_free: bool,
}

impl Lease {
    /// The group is free, or was never held.
    pub(super) fn free(mut self) {
        self.is_free = true;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.in_flight.leases.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        if !self.is_free {
            self.in_flight.suspect();
        }
    }
}

fn told(released: u64) {
    if released > 0 {
        tracing::warn!(released, "gave back jobs whose claim got lost on the way");
    }
}
