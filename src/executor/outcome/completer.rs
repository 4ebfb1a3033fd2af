//! Records outcomes in batches.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::backoff::Reconnect;
use crate::error::{Error, Result, warn_of};
use crate::executor::node::in_flight::{GroupLease, InFlight};
use crate::executor::node::stats::{Counters, add};
use crate::executor::outcome::group_run::{GroupClaimer, GroupRun};
use crate::executor::outcome::kept::{Keep, Kept};
use crate::job::{ClaimNumber, Fence, Job, JobId, NodeId};
use crate::message::WakeUp;
use crate::store::{GroupClaim, GroupsClaimed, Hint, MAX_HIDDEN, Outcomes, Settlement, Verdict};

/// The most outcomes recorded with one statement.
const BATCH: usize = 1000;
/// The most jobs of groups claimed with one statement that also records outcomes.
const WANTED: usize = 2000;
/// How often workers may run before outcomes are recorded, so that theirs join the same statement.
const GATHER_TURNS: usize = 16;
/// How long a job waits when the database accepts no outcome for it at all.
const PUT_OFF: Duration = Duration::from_secs(60);
// A hidden row whose time ends later than that counts as visible, so the job would not wait.
const _: () = assert!(PUT_OFF.as_secs() < MAX_HIDDEN.as_secs());
/// Outcomes that may wait. When it is full, workers wait with theirs and keep their slots: a slow database slows the claims.
const BACKLOG: usize = 4 * BATCH;

/// How an attempt ended whose handler did not use its transaction.
#[derive(Debug)]
pub(crate) enum Completion {
    Done(Fence),
    /// These jobs are done, and others of their group may follow in their slot.
    DoneInGroup(Vec<Fence>, GroupRun),
    Settled(Settlement),
    /// Sent back when all outcomes handed in before are recorded.
    Recorded(oneshot::Sender<()>),
}

/// The sender with which workers hand in outcomes.
#[derive(Clone, Debug)]
pub(crate) struct Completions(mpsc::Sender<Completion>);

impl Completions {
    pub(crate) async fn send(&self, completion: Completion) {
        // Fails only after the node lost its lease, when every outcome would be refused.
        let _ = self.0.send(completion).await;
    }

    /// Hands in an outcome and waits until it is recorded. `false`: the completer has ended.
    pub(crate) async fn record(&self, completion: Completion) -> bool {
        self.send(completion).await;
        self.recorded().await
    }

    /// Waits until all outcomes handed in before are recorded. `false`: the completer has ended.
    pub(crate) async fn recorded(&self) -> bool {
        let (done, recorded) = oneshot::channel();
        self.send(Completion::Recorded(done)).await;
        recorded.await.is_ok()
    }

    /// Hands in an outcome if that needs no wait. Returns whether it did.
    pub(crate) fn try_send(&self, completion: Completion) -> bool {
        match self.0.try_send(completion) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => true,
            Err(mpsc::error::TrySendError::Full(_)) => false,
        }
    }
}

/// Takes outcomes from all workers and records them. An idle completer records each at once. Under load it records hundreds with one
/// statement, because outcomes that arrive while a statement runs make up the next batch.
pub(crate) struct Completer {
    pub(crate) store: Arc<dyn Outcomes>,
    pub(crate) node: NodeId,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) wakeup: Arc<WakeUp>,
    pub(crate) next: Weak<dyn GroupClaimer>,
    /// Cancelled to record the outcomes handed in so far and end. No others will come.
    pub(crate) finish: CancellationToken,
    /// Cancelled when the lease is lost: no outcome will be accepted any more.
    pub(crate) lost: CancellationToken,
}

impl Completer {
    pub(crate) fn channel() -> (Completions, mpsc::Receiver<Completion>) {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        (Completions(sender), receiver)
    }

    /// Runs until every outcome is recorded and all workers are gone (or `finish` is cancelled), or the lease is lost.
    pub(crate) async fn run(self, mut completions: mpsc::Receiver<Completion>) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut kept = Kept::default();
        let mut finishing = false;
        let mut all_gone = false;
        loop {
            tokio::select! {
                received = completions.recv_many(&mut batch, BATCH), if !all_gone && kept.len() < BACKLOG => all_gone = received == 0,
                () = kept.due() => {}
                () = self.lost.cancelled() => return,
                () = self.finish.cancelled(), if !finishing => {
                    finishing = true;
                    completions.close();
                }
            }
            if all_gone && kept.is_empty() {
                return;
            }
            self.gather(&mut completions, &mut batch).await;
            let (done, settled) = kept.take();
            batch.extend(done.into_iter().map(Completion::Done).chain(settled.into_iter().map(Completion::Settled)));
            self.write(&mut batch, &mut kept).await;
        }
    }

    /// Lets jobs that end at the same time join the batch, because fewer statements then record the same. The only job in flight is
    /// recorded at once. If others run for long, this costs a few turns of the scheduler and no time.
    async fn gather(&self, completions: &mut mpsc::Receiver<Completion>, batch: &mut Vec<Completion>) {
        for _ in 0..GATHER_TURNS {
            if batch.len() >= self.in_flight.len().min(BATCH) {
                return;
            }
            tokio::task::yield_now().await;
            while batch.len() < BATCH
                && let Ok(completion) = completions.try_recv()
            {
                batch.push(completion);
            }
        }
    }

    /// Records outcomes. Returns the jobs whose outcome was accepted. Keeps those that the database refuses through no fault of their jobs.
    pub(crate) async fn write(&self, batch: &mut Vec<Completion>, kept: &mut Kept) -> Vec<JobId> {
        let mut done = Vec::with_capacity(batch.len());
        let mut settled = Vec::new();
        let mut group_runs = Vec::new();
        let mut waiting = Vec::new();
        for completion in batch.drain(..) {
            match completion {
                Completion::Done(fence) => done.push(fence),
                Completion::DoneInGroup(ended, group_run) => group_runs.push((ended, group_run)),
                Completion::Settled(settlement) => settled.push(settlement),
                Completion::Recorded(done) => waiting.push(done),
            }
        }
        let mut accepted = Vec::new();
        if !group_runs.is_empty() {
            accepted = self.complete_and_claim_next(group_runs, &mut done).await;
        }
        if !done.is_empty() {
            let completed = self.complete(done, kept).await;
            if accepted.is_empty() {
                accepted = completed;
            } else {
                accepted.extend(completed);
            }
        }
        if !settled.is_empty() {
            accepted.extend(self.settle(settled, kept).await);
        }
        kept.tried(waiting);
        accepted
    }

    /// Records that jobs are done, and claims the next ones of their groups. Adds to `done` the jobs to be recorded without such a claim.
    async fn complete_and_claim_next(
        &self,
        group_runs: Vec<(Vec<Fence>, GroupRun)>,
        done: &mut Vec<Fence>,
    ) -> Vec<JobId> {
        let mut accepted = Vec::new();
        let mut group_runs = group_runs.into_iter().peekable();
        while group_runs.peek().is_some() {
            let mut wanted = 0;
            let mut part = Vec::new();
            while let Some((ended, group_run)) =
                group_runs.next_if(|(_, group_run)| part.is_empty() || wanted + group_run.group.wanted <= WANTED)
            {
                wanted += group_run.group.wanted;
                part.push((ended, group_run));
            }
            accepted.extend(self.complete_and_claim_chunk(part, done).await);
        }
        accepted
    }

    async fn complete_and_claim_chunk(
        &self,
        mut group_runs: Vec<(Vec<Fence>, GroupRun)>,
        done: &mut Vec<Fence>,
    ) -> Vec<JobId> {
        // Each job appears once: the result has ids only, which can't tell two claims of one job apart.
        let mut seen = HashSet::with_capacity(group_runs.len());
        for (ended, _) in &mut group_runs {
            done.extend(ended.extract_if(.., |fence| !seen.insert(fence.id)));
        }
        let fences: Vec<Fence> = group_runs.iter().flat_map(|(ended, _)| ended).copied().collect();
        let Some(next) = self.next.upgrade().filter(|_| !self.lost.is_cancelled()) else {
            // Retiring the node frees what it holds.
            done.extend(fences);
            return Vec::new();
        };
        let claim = next.begin_claim();
        if claim.is_none() {
            for (_, group_run) in &mut group_runs {
                group_run.end();
            }
        }
        // Known while the claim is under way, so that a later reconciliation does not take these leases for lost.
        let new = |group_run: &GroupRun| {
            (group_run.lease.is_none() && group_run.group.wanted > 0)
                .then(|| self.in_flight.lease(group_run.group.lease))
        };
        let mut group_runs: Vec<(GroupRun, Option<GroupLease>)> = group_runs
            .into_iter()
            .map(|(_, group_run)| (new(&group_run), group_run))
            .map(|(new, group_run)| (group_run, new))
            .collect();
        let groups: Vec<GroupClaim> = group_runs.iter().map(|(group_run, _)| group_run.group.clone()).collect();
        // Without a claim the groups end here.
        let number = claim.as_ref().map_or(ClaimNumber::NONE, |next| next.claim.number());
        let handed = match self.store.complete_and_claim_next(self.node, number, &fences, &groups, next.kinds()).await {
            Ok(handed) => handed,
            Err(error) => {
                // It may have claimed jobs. The finished ones are recorded again, which is refused if that had happened.
                tracing::debug!(%error, "the next jobs of groups could not be claimed with the end of those before them");
                next.failed(&error);
                if error.kept_nothing() {
                    group_runs.iter_mut().filter_map(|(_, new)| new.take()).for_each(GroupLease::free);
                }
                done.extend(fences);
                return Vec::new();
            }
        };
        let GroupsClaimed { accepted, next: jobs } = handed;
        self.in_flight.add(jobs.iter());
        add(&self.counters.done, accepted.len());
        add(&self.counters.claimed, jobs.len());
        self.wakeup.job_waiters.notify(accepted.iter().copied());
        let taken: HashSet<JobId> = accepted.iter().copied().collect();
        let (gone, left): (Vec<Fence>, Vec<Fence>) = fences.into_iter().partition(|fence| taken.contains(&fence.id));
        done.extend(left);
        let mut runs: HashMap<String, Vec<Job>> = HashMap::with_capacity(group_runs.len());
        for job in jobs {
            if let Some(group) = job.options.group.clone() {
                runs.entry(group).or_default().push(job);
            }
        }
        let mut freed = false;
        for (mut group_run, new) in group_runs {
            match runs.remove(&group_run.group.group) {
                Some(jobs) => {
                    if let Some(new) = new {
                        group_run.leased(new);
                    }
                    next.start(jobs, group_run);
                }
                None => {
                    freed = true;
                    group_run.lease.into_iter().chain(new).for_each(GroupLease::free);
                }
            }
        }
        // Groups whose next jobs were claimed are not free, and need no admission pass.
        self.in_flight.forget(gone.into_iter());
        if freed {
            self.in_flight.admission_due.notify_one();
        }
        accepted
    }

    async fn complete(&self, mut fences: Vec<Fence>, kept: &mut Kept) -> Vec<JobId> {
        let accepted = self.record(&mut fences, kept).await;
        add(&self.counters.done, accepted.len());
        self.wakeup.job_waiters.notify(accepted.iter().copied());
        self.refused("done", fences.len() - accepted.len());
        self.remove_from_flight(fences.into_iter(), accepted.len());
        accepted
    }

    async fn settle(&self, mut settlements: Vec<Settlement>, kept: &mut Kept) -> Vec<JobId> {
        let accepted = self.record(&mut settlements, kept).await;
        let timers = settlements.iter().any(|s| matches!(s.verdict, Verdict::Retry(_) | Verdict::Snooze(_)));
        let released = settlements.iter().any(|s| s.verdict == Verdict::Release);
        self.wakeup.notify(timers.then_some(Hint::Timer).into_iter().chain(released.then_some(Hint::Any)));
        let taken: HashSet<JobId> = accepted.iter().copied().collect();
        for settlement in settlements.iter().filter(|settlement| taken.contains(&settlement.fence.id)) {
            add(counter(&self.counters, &settlement.verdict), 1);
        }
        self.wakeup.job_waiters.notify(accepted.iter().copied());
        self.refused("settled", settlements.len() - accepted.len());
        self.remove_from_flight(settlements.iter().map(|s| s.fence), accepted.len());
        accepted
    }

    fn remove_from_flight(&self, fences: impl ExactSizeIterator<Item = Fence> + Clone, accepted: usize) {
        if accepted == fences.len() {
            self.in_flight.remove(fences);
        } else {
            // All of them: the batch may contain two claims of one job, of which one was accepted. Reporting the accepted one has no
            // effect.
            self.in_flight.leave(fences);
        }
    }

    fn refused(&self, what: &str, n: usize) {
        if n > 0 && !self.lost.is_cancelled() {
            add(&self.counters.refused, n);
            tracing::warn!(
                what,
                n,
                "outcomes were refused: the jobs were cancelled, or their claim was no longer current"
            );
        }
    }

    /// Records items whatever it takes: again after an outage, and in halves after a refusal of the whole batch, so that one bad item can't
    /// hold up the others. Returns the jobs whose outcomes were accepted. Moves out of the items those that are kept for later.
    async fn record<T: Record>(&self, items: &mut Vec<T>, kept: &mut Kept) -> Vec<JobId> {
        let mut delays = Reconnect::new(Duration::from_secs(2));
        let mut accepted = Vec::new();
        let mut refused = None;
        let mut rest = &items[..];
        let mut part = items.len();
        while !rest.is_empty() && !self.lost.is_cancelled() {
            part = part.min(rest.len());
            match T::record(&*self.store, self.node, &rest[..part]).await {
                Ok(ids) => {
                    if accepted.is_empty() {
                        accepted = ids;
                    } else {
                        accepted.extend(ids);
                    }
                    rest = &rest[part..];
                    part *= 2;
                }
                // One alone tells whether it was refused on account of another, and costs little each time if all are.
                Err(error) if error.refuses_all() && part > 1 => part = 1,
                Err(error) if error.refuses_all() => {
                    refused = Some((items.len() - rest.len(), error));
                    break;
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
                    self.give_up(rest[0].fence(), &error).await;
                    rest = &rest[1..];
                }
            }
        }
        if let Some((first, error)) = refused {
            let mut left = items.split_off(first);
            // Another one is the first next time, so that this one can't hold up the others if it alone is refused.
            left.rotate_left(1);
            kept.keep(left, &error);
        }
        accepted
    }

    /// Handles an outcome that the database refuses for good. The handler ran, so the attempt is spent: a job whose end can't be recorded
    /// must not run for ever. It becomes a dead letter with the reason. If that is refused too, it waits a while and is tried again.
    async fn give_up(&self, fence: Fence, error: &Error) {
        let why = format!("its outcome could not be recorded: {error}");
        let dead = Settlement::new(fence, Verdict::Dead).error(&why, None);
        let dead = [dead];
        if let Err(again) = self.through_outages(|| self.store.settle(self.node, &dead)).await {
            tracing::error!(job = %fence.id, %error, %again, "an outcome can't be recorded, nor the job be made a dead letter; it waits");
            if let Err(error) = self.through_outages(|| self.store.put_off(self.node, fence, PUT_OFF)).await {
                tracing::error!(job = %fence.id, %error, "the job could not be put off; it is given back");
                // First removed from the jobs in flight: reconciliation gives back only jobs that it does not know.
                self.in_flight.remove(std::iter::once(fence));
                self.in_flight.suspect();
            }
        } else {
            tracing::error!(job = %fence.id, %error, "an outcome can't be recorded; the job is a dead letter");
        }
    }

    /// Repeats a call while only an outage keeps it from an answer and the lease lasts.
    async fn through_outages<T, F: Future<Output = Result<T>>>(&self, call: impl Fn() -> F) -> Result<T> {
        let mut delays = Reconnect::new(Duration::from_secs(2));
        loop {
            match call().await {
                Err(error) if error.is_retryable() && !self.lost.is_cancelled() => {
                    tracing::debug!(%error, "a job whose outcome was refused could not be put aside; trying again");
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
trait Record: Keep + Sync {
    /// Returns the claim whose outcome this is.
    fn fence(&self) -> Fence;

    async fn record(store: &dyn Outcomes, node: NodeId, items: &[Self]) -> Result<Vec<JobId>>;
}

#[async_trait]
impl Record for Fence {
    fn fence(&self) -> Fence {
        *self
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

    async fn record(store: &dyn Outcomes, node: NodeId, items: &[Self]) -> Result<Vec<JobId>> {
        store.settle(node, items).await
    }
}

fn counter<'a>(counters: &'a Counters, verdict: &Verdict) -> &'a AtomicU64 {
    match verdict {
        Verdict::Retry(_) => &counters.failed,
        Verdict::Release => &counters.released,
        Verdict::Snooze(_) | Verdict::Cancel | Verdict::Dead => &counters.other,
    }
}
