use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, RwLock};
use tokio_util::sync::CancellationToken;

use crate::backoff::Reconnect;
use crate::job::{Fence, Job, JobId, NodeId};
use crate::store::JobStore;

/// What this node has in hand, from the answer to a claim until its outcome is recorded.
///
/// The answer to a claim (or to a commit that was to hand jobs over) can get lost. Then this node owns rows that it does not
/// know, and because it is alive nobody else will release them. So whoever loses an answer calls [`suspect`](Self::suspect),
/// and [`reconcile`](Self::reconcile) gives back what is owned and not known.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    jobs: Mutex<HashMap<JobId, Hand>>,
    /// Held for reading from before a claim is sent until its jobs are known here; for writing while reconciling.
    pub(super) claiming: Arc<RwLock<()>>,
    suspicion: Notify,
    /// Something may be admitted: what held a group or a place under a limit has ended here.
    pub(super) gate: Arc<Notify>,
}

/// A job in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hand {
    version: i64,
    admitted: bool,
}

impl InFlight {
    pub(super) fn add<'a>(&self, jobs: impl Iterator<Item = &'a Job>) {
        let hand = |job: &Job| (job.id, Hand { version: job.version, admitted: job.admitted });
        self.lock().extend(jobs.map(hand));
    }

    /// Forgets claims; one that was replaced by a newer claim of the same job stays.
    pub(super) fn remove(&self, fences: impl Iterator<Item = Fence>) {
        let mut opens = false;
        let mut jobs = self.lock();
        for fence in fences {
            if let Some(hand) = jobs.get(&fence.id).copied().filter(|hand| hand.version == fence.version) {
                opens |= hand.admitted;
                jobs.remove(&fence.id);
            }
        }
        drop(jobs);
        if opens {
            self.gate.notify_one();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn fences(&self) -> HashSet<Fence> {
        self.lock().iter().map(|(id, hand)| Fence::new(*id, hand.version)).collect()
    }

    fn ids(&self) -> Vec<JobId> {
        self.lock().keys().copied().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<JobId, Hand>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer got lost: this node may own what it does not know.
    pub(super) fn suspect(&self) {
        self.suspicion.notify_one();
    }

    /// Waits for a suspicion, then gives back what is owned and not known: at once, and again after `straggler`, the longest
    /// time a statement whose answer got lost may still run on the server.
    pub(super) async fn reconcile(
        &self,
        store: Arc<dyn JobStore>,
        node: NodeId,
        straggler: std::time::Duration,
        stop: CancellationToken,
    ) {
        let mut again = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.suspicion.notified() => again = true,
                () = tokio::time::sleep(straggler), if again => again = false,
            }
            let mut delays = Reconnect::new(std::time::Duration::from_secs(5));
            while let Err(error) = self.release_unknown(&store, node).await {
                tracing::warn!(%error, "could not give back what got lost on the way; trying again");
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(delays.next_delay()) => {}
                }
            }
        }
    }

    pub(super) async fn release_unknown(&self, store: &Arc<dyn JobStore>, node: NodeId) -> crate::Result<()> {
        let _nobody_claims = self.claiming.write().await;
        let released = store.release_unknown(node, &self.ids()).await?;
        if released > 0 {
            tracing::warn!(released, "gave back jobs whose claim got lost on the way");
        }
        Ok(())
    }
}
