//! Records a batch of outcomes whatever it takes.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::backoff::Reconnect;
use crate::error::{Error, Result, warn_of};
use crate::executor::node::in_flight::InFlight;
use crate::executor::node::lease::while_leased;
use crate::executor::node::unrecorded::Unrecorded;
use crate::job::{Fence, JobId, NodeId};
use crate::store::{MAX_HIDDEN, Outcomes, Settlement, Verdict};

/// How long a job waits when the database accepts no outcome for it at all.
const PUT_OFF: Duration = Duration::from_secs(60);
// A hidden row whose time ends later than that counts as visible, so the job would not wait.
const _: () = assert!(PUT_OFF.as_secs() < MAX_HIDDEN.as_secs());

/// What became of a batch.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// The jobs whose outcomes were accepted.
    pub(crate) accepted: Vec<JobId>,
    /// The claims whose jobs another transaction has locked, with a description of it. Nothing was recorded for them.
    pub(crate) held: HashMap<Fence, String>,
    /// The claims that were not recorded because the database refuses all outcomes of their kind.
    pub(crate) refused: HashSet<Fence>,
    /// Why it refuses them.
    pub(crate) refusal: Option<Error>,
    /// The claims whose outcomes were not recorded before the lease ended, as far as is known here.
    pub(crate) left: HashSet<Fence>,
}

impl Recorded {
    fn accept(&mut self, ids: Vec<JobId>) {
        if self.accepted.is_empty() {
            self.accepted = ids;
        } else {
            self.accepted.extend(ids);
        }
    }
}

/// Records outcomes of one node.
pub(crate) struct Recorder<'a> {
    pub(crate) store: &'a dyn Outcomes,
    pub(crate) node: NodeId,
    pub(crate) in_flight: &'a InFlight,
    /// Cancelled when nothing is to be waited for any longer: the lease has ended.
    pub(crate) lost: &'a CancellationToken,
}

impl Recorder<'_> {
    /// Records items: again after an outage, in halves after a refusal of the whole batch, and around those that another transaction has locked.
    /// So neither a bad item nor a locked one can hold up the others. What the database would refuse of every job is left for later.
    pub(crate) async fn record<T: Record>(&self, items: &[T]) -> Recorded {
        let mut recorded = Recorded::default();
        let mut again = self.record_all(items, &mut recorded).await;
        while !again.is_empty() && !self.lost.is_cancelled() {
            again = self.record_all(&again, &mut recorded).await;
        }
        recorded.left = again.iter().map(T::fence).collect();
        recorded
    }

    /// Returns the items to be recorded again.
    async fn record_all<T: Record>(&self, items: &[T], recorded: &mut Recorded) -> Vec<T> {
        let mut delays = Reconnect::new(Duration::from_secs(2));
        let mut again = Vec::new();
        let mut rest = items;
        let mut part = items.len();
        while !rest.is_empty() && !self.lost.is_cancelled() {
            part = part.min(rest.len());
            match while_leased(self.lost, T::record(self.store, self.node, &rest[..part])).await {
                Ok(ids) => {
                    recorded.accept(ids);
                    rest = &rest[part..];
                    part *= 2;
                }
                Err(_) if self.lost.is_cancelled() => break,
                // One alone tells whether it was refused on account of another, and costs little each time if all are.
                Err(error) if error.refuses_all() && part > 1 => part = 1,
                Err(error) if error.refuses_all() => {
                    recorded.refused.extend(rest.iter().map(T::fence));
                    recorded.refusal = Some(error);
                    rest = &[];
                }
                Err(error) if error.is_undecided() => {
                    again.extend(self.record_free(&rest[..part], recorded).await);
                    rest = &rest[part..];
                }
                Err(error) if error.is_retryable() => {
                    warn_of!(error, waiting = rest.len(), "outcomes could not be recorded; trying again");
                    self.pause(&mut delays).await;
                }
                Err(error) if part > 1 => {
                    // Halving the batch records a thousand items with one bad among them in about twenty statements.
                    part = part.div_ceil(2);
                    tracing::warn!(%error, part, "a batch of outcomes was refused by the database; recording it in parts");
                }
                Err(error) => {
                    let given_up = self.give_up(rest[0].fence(), &error).await;
                    if self.lost.is_cancelled() {
                        break;
                    }
                    match given_up {
                        Ok(()) => {}
                        Err(error) if error.refuses_all() => {
                            recorded.refused.insert(rest[0].fence());
                            recorded.refusal = Some(error);
                        }
                        Err(lock) => drop(recorded.held.insert(rest[0].fence(), lock.to_string())),
                    }
                    rest = &rest[1..];
                }
            }
        }
        // Not empty if the lease has ended.
        again.extend_from_slice(rest);
        again
    }

    /// Records those of the items whose jobs are not locked. If a lock is on none of the rows, the batch is halved until it is known whose
    /// outcome needs it. Returns the items that failed in another way.
    async fn record_free<T: Record>(&self, items: &[T], recorded: &mut Recorded) -> Vec<T> {
        let mut again = Vec::new();
        // A stack: the last entry is the next one.
        let mut todo = vec![items.to_vec()];
        while let Some(part) = todo.pop() {
            let fences: Vec<Fence> = part.iter().map(T::fence).collect();
            let locked = self.locked(&fences).await;
            let mut free = Vec::with_capacity(part.len());
            for item in part {
                match locked.get(&item.fence().id) {
                    Some(held_by) => drop(recorded.held.insert(item.fence(), held_by.clone())),
                    None => free.push(item),
                }
            }
            if free.is_empty() {
                continue;
            }
            match while_leased(self.lost, T::record(self.store, self.node, &free)).await {
                Ok(ids) => recorded.accept(ids),
                Err(error) if error.is_undecided() && free.len() == 1 => {
                    recorded.held.insert(free[0].fence(), error.to_string());
                }
                Err(error) if error.is_undecided() => {
                    let second = free.split_off(free.len() / 2);
                    todo.extend([second, free]);
                }
                Err(_) => again.append(&mut free),
            }
        }
        again
    }

    /// Returns which of these jobs another transaction has locked, and which one. This waits for no lock on a row.
    pub(crate) async fn locked(&self, fences: &[Fence]) -> HashMap<JobId, String> {
        if fences.is_empty() {
            return HashMap::new();
        }
        match while_leased(self.lost, self.store.held(self.node, fences)).await {
            Ok(held) => held.into_iter().map(|job| (job.id, job.held_by)).collect(),
            Err(error) => {
                tracing::debug!(%error, "which jobs are locked is not known");
                HashMap::new()
            }
        }
    }

    /// Handles an outcome that the database refuses for good. The handler ran, so the attempt is spent: a job whose end can't be recorded
    /// must not run for ever. It becomes a dead letter with the reason. If that is refused too, it waits a while and is tried again. Returns an
    /// error if the job is locked, or if the database refuses whatever is tried by now: so this has to wait.
    async fn give_up(&self, fence: Fence, error: &Error) -> Result<()> {
        let why = format!("its outcome could not be recorded: {error}");
        let dead = Settlement::new(fence, Verdict::Dead).error(&why, None);
        let dead = [dead];
        let again = match self.through_outages(|| self.store.settle(self.node, &dead)).await {
            Ok(_) => {
                tracing::error!(job = %fence.id, %error, "an outcome can't be recorded; the job is a dead letter");
                return Ok(());
            }
            Err(later) if later.is_undecided() || later.refuses_all() || self.lost.is_cancelled() => return Err(later),
            Err(again) => again,
        };
        tracing::error!(job = %fence.id, %error, %again, "an outcome can't be recorded, nor the job be made a dead letter; it waits");
        match self.through_outages(|| self.store.put_off(self.node, fence, PUT_OFF)).await {
            Ok(()) => {}
            Err(later) if later.is_undecided() || later.refuses_all() || self.lost.is_cancelled() => return Err(later),
            Err(error) => {
                tracing::error!(job = %fence.id, %error, "the job could not be postponed; it is released");
                // First removed from the jobs in flight: reconciliation gives back only jobs that it does not know.
                self.in_flight.remove(std::iter::once(fence));
                self.in_flight.suspect();
            }
        }
        Ok(())
    }

    /// Repeats a call while only an outage keeps it from an answer and the lease lasts.
    async fn through_outages<T, F: Future<Output = Result<T>>>(&self, call: impl Fn() -> F) -> Result<T> {
        let mut delays = Reconnect::new(Duration::from_secs(2));
        loop {
            match while_leased(self.lost, call()).await {
                Err(error) if error.is_retryable() && !error.is_undecided() && !self.lost.is_cancelled() => {
                    tracing::debug!(%error, "a job whose outcome was refused could not be set aside; trying again");
                    self.pause(&mut delays).await;
                }
                other => return other,
            }
        }
    }

    async fn pause(&self, delays: &mut Reconnect) {
        tokio::select! {
            () = self.lost.cancelled() => {}
            () = tokio::time::sleep(delays.next_delay()) => {}
        }
    }
}

/// An outcome that a store can record.
#[async_trait]
pub(crate) trait Record: Clone + Send + Sync {
    /// Returns the claim whose outcome this is.
    fn fence(&self) -> Fence;

    fn unrecorded(self) -> Unrecorded;

    async fn record(store: &dyn Outcomes, node: NodeId, items: &[Self]) -> Result<Vec<JobId>>;
}

#[async_trait]
impl Record for Fence {
    fn fence(&self) -> Fence {
        *self
    }

    fn unrecorded(self) -> Unrecorded {
        Unrecorded::Done(self)
    }

    async fn record(store: &dyn Outcomes, node: NodeId, items: &[Self]) -> Result<Vec<JobId>> {
        store.complete(node, items).await
    }
}

#[async_trait]
impl Record for Settlement {
    fn fence(&self) -> Fence {
        self.fence
    }

    fn unrecorded(self) -> Unrecorded {
        Unrecorded::Settled(self)
    }

    async fn record(store: &dyn Outcomes, node: NodeId, items: &[Self]) -> Result<Vec<JobId>> {
        store.settle(node, items).await
    }
}
