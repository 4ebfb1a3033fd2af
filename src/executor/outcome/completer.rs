//! Records outcomes in batches.

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::executor::groups::next::complete_and_claim_next;
use crate::executor::metrics::attempts::AttemptOutcome;
use crate::executor::metrics::stats::{Counters, add};
use crate::executor::node::Node;
use crate::executor::node::completion::{Completion, Completions};
use crate::executor::node::in_flight::InFlight;
use crate::executor::node::unrecorded::Unrecorded;
use crate::executor::outcome::recording::{Record, Recorded, Recorder};
use crate::executor::outcome::waiting::Waiting;
use crate::executor::run::end::settled_as;
use crate::job::{Fence, JobId, NodeId};
use crate::message::WakeUp;
use crate::store::{Hint, Outcomes, Settlement, Verdict};

/// The most outcomes recorded with one statement.
const BATCH: usize = 1000;
/// How often workers may run before outcomes are recorded, so that theirs join the same statement.
const GATHER_TURNS: usize = 16;
/// Outcomes that may wait. When it is full, workers wait with theirs and keep their slots: a slow database slows the claims.
const BACKLOG: usize = 4 * BATCH;

/// Takes outcomes from all workers and records them. An idle completer records each at once. Under load it records hundreds with one
/// statement, because outcomes that arrive while a statement runs make up the next batch.
pub(crate) struct Completer {
    pub(crate) store: Arc<dyn Outcomes>,
    pub(crate) node: NodeId,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) wakeup: Arc<WakeUp>,
    /// Claims the next jobs of groups. Empty: none are claimed.
    pub(crate) next: Weak<Node>,
    /// Cancelled to record the outcomes handed in so far and end. No others will come.
    pub(crate) finish: CancellationToken,
    /// Cancelled when the lease is lost: nothing is recorded any more, until this process has left its node in good order.
    pub(crate) lost: CancellationToken,
}

impl Completer {
    pub(crate) fn channel() -> (Completions, mpsc::Receiver<Completion>) {
        Completions::channel(BACKLOG)
    }

    /// Runs until every outcome is recorded and all workers are gone (or `finish` is cancelled). If the lease is lost, it only collects outcomes
    /// from then on, and returns those that are not recorded.
    pub(crate) async fn run(self, mut completions: mpsc::Receiver<Completion>) -> Vec<Unrecorded> {
        let mut batch = Vec::with_capacity(BATCH);
        let mut waiting = Waiting::default();
        let mut finishing = false;
        let mut all_gone = false;
        loop {
            tokio::select! {
                received = completions.recv_many(&mut batch, BATCH), if !all_gone && waiting.kept.len() < BACKLOG => {
                    all_gone = received == 0;
                }
                () = waiting.due() => {}
                () = self.lost.cancelled() => return self.collect(completions, batch, waiting).await,
                () = self.finish.cancelled(), if !finishing => {
                    finishing = true;
                    completions.close();
                }
            }
            if all_gone && waiting.is_empty() {
                return Vec::new();
            }
            self.gather(&mut completions, &mut batch).await;
            batch.extend(self.due(&mut waiting).await);
            self.write(&mut batch, &mut waiting).await;
        }
    }

    /// Collects what is not recorded when the lease is lost. Handlers are being stopped, and those that have ended hand in their outcomes until
    /// `finish` is cancelled.
    async fn collect(
        &self,
        mut completions: mpsc::Receiver<Completion>,
        mut batch: Vec<Completion>,
        mut waiting: Waiting,
    ) -> Vec<Unrecorded> {
        let mut left = waiting.take_all();
        loop {
            left.extend(batch.drain(..).flat_map(Completion::unrecorded));
            let received = tokio::select! {
                received = completions.recv_many(&mut batch, BATCH) => received,
                () = self.finish.cancelled() => {
                    completions.close();
                    completions.recv_many(&mut batch, BATCH).await
                }
            };
            if received == 0 {
                return left;
            }
        }
    }

    /// Records outcomes that a node left whose lease was lost, until `lost` is cancelled. The store refuses those whose claim is no longer
    /// current. Returns what is not recorded.
    pub(crate) async fn record_left(self, left: Vec<Unrecorded>) -> Vec<Unrecorded> {
        let (completions, inbox) = mpsc::channel(left.len().max(1));
        for outcome in left {
            // The channel has space for all of them.
            let _ = completions.try_send(outcome.into());
        }
        drop(completions);
        self.finish.cancel();
        self.run(inbox).await
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

    /// Takes the outcomes that are to be tried again, without those whose jobs are still locked. This waits for no lock.
    pub(crate) async fn due(&self, waiting: &mut Waiting) -> Vec<Completion> {
        let now = Instant::now();
        let mut due = waiting.kept.due(now);
        let held = waiting.held.due(now);
        let fences: Vec<Fence> = held.iter().map(Unrecorded::fence).collect();
        let locked = self.recorder().locked(&fences).await;
        let (held, free): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|outcome| locked.contains_key(&outcome.fence().id));
        for outcome in held {
            waiting.held.put(outcome);
        }
        due.extend(free);
        due.into_iter().map(Completion::from).collect()
    }

    /// Records outcomes. Returns the jobs whose outcome was accepted. Those that can't be recorded yet, through no fault of their jobs, wait.
    pub(crate) async fn write(&self, batch: &mut Vec<Completion>, waiting: &mut Waiting) -> Vec<JobId> {
        let mut done = Vec::with_capacity(batch.len());
        let mut settled = Vec::new();
        let mut group_runs = Vec::new();
        let mut callers = Vec::new();
        for completion in batch.drain(..) {
            match completion {
                Completion::Done(fence) => done.push(fence),
                Completion::DoneInGroup(ended, group_run) => group_runs.push((ended, group_run)),
                Completion::Settled(settlement) => settled.push(settlement),
                Completion::Recorded(jobs, done) => callers.push((jobs, done)),
            }
        }
        let mut accepted = Vec::new();
        if !group_runs.is_empty() {
            match self.next.upgrade() {
                Some(node) => accepted = complete_and_claim_next(&node, group_runs, &mut done, &self.lost).await,
                // Retiring the node frees what it holds.
                None => done.extend(group_runs.into_iter().flat_map(|(ended, _)| ended)),
            }
        }
        if !done.is_empty() {
            let completed = self.complete(done, waiting).await;
            if accepted.is_empty() {
                accepted = completed;
            } else {
                accepted.extend(completed);
            }
        }
        if !settled.is_empty() {
            accepted.extend(self.settle(settled, waiting).await);
        }
        waiting.tried(callers);
        accepted
    }

    fn recorder(&self) -> Recorder<'_> {
        Recorder { store: &*self.store, node: self.node, in_flight: &self.in_flight, lost: &self.lost }
    }

    async fn complete(&self, mut fences: Vec<Fence>, waiting: &mut Waiting) -> Vec<JobId> {
        let accepted = self.record(&mut fences, waiting).await;
        add(&self.counters.done, accepted.len());
        self.wakeup.job_waiters.notify(accepted.iter().copied());
        self.refused(AttemptOutcome::Done, (fences.len() - accepted.len()) as u64);
        self.remove_from_flight(fences.into_iter(), accepted.len());
        accepted
    }

    async fn settle(&self, mut settlements: Vec<Settlement>, waiting: &mut Waiting) -> Vec<JobId> {
        let accepted = self.record(&mut settlements, waiting).await;
        let timers = settlements.iter().any(|s| matches!(s.verdict, Verdict::Retry(_) | Verdict::Snooze(_)));
        let released = settlements.iter().any(|s| s.verdict == Verdict::Release);
        self.wakeup.notify(timers.then_some(Hint::Timer).into_iter().chain(released.then_some(Hint::Any)));
        let taken: HashSet<JobId> = accepted.iter().copied().collect();
        for settlement in settlements.iter().filter(|settlement| taken.contains(&settlement.fence.id)) {
            add(counter(&self.counters, &settlement.verdict), 1);
        }
        self.wakeup.job_waiters.notify(accepted.iter().copied());
        if accepted.len() < settlements.len() {
            for outcome in AttemptOutcome::ALL {
                let is_refused = |settlement: &&Settlement| {
                    !taken.contains(&settlement.fence.id) && settled_as(&settlement.verdict) == outcome
                };
                self.refused(outcome, settlements.iter().filter(is_refused).count() as u64);
            }
        }
        self.remove_from_flight(settlements.iter().map(|s| s.fence), accepted.len());
        accepted
    }

    /// Records items. Returns the jobs whose outcomes were accepted. Moves out of the items those that have to wait: their jobs stay in flight.
    async fn record<T: Record>(&self, items: &mut Vec<T>, waiting: &mut Waiting) -> Vec<JobId> {
        let began = Instant::now();
        let Recorded { accepted, held, refused, refusal, left } = self.recorder().record(items).await;
        self.counters.records.add(began.elapsed());
        if !left.is_empty() {
            let left = items.extract_if(.., |item| left.contains(&item.fence()));
            waiting.left.extend(left.map(T::unrecorded));
        }
        waiting.held.tell(&held);
        let locked = items.extract_if(.., |item| held.contains_key(&item.fence()));
        locked.for_each(|item| waiting.held.put(item.unrecorded()));
        if let Some(error) = refusal {
            let mut kept: Vec<_> = items.extract_if(.., |item| refused.contains(&item.fence())).collect();
            // Another one is the first next time, so that this one can't hold up the others if it alone is refused.
            if !kept.is_empty() {
                kept.rotate_left(1);
            }
            waiting.kept.keep(kept.into_iter().map(T::unrecorded).collect(), &error);
        }
        waiting.held.decided(items.iter().map(T::fence));
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

    fn refused(&self, outcome: AttemptOutcome, n: u64) {
        if n > 0 && !self.lost.is_cancelled() {
            self.counters.refused.add_many(outcome.as_str(), n);
            tracing::warn!(
                outcome = outcome.as_str(),
                n,
                "outcomes were refused: the jobs were cancelled, or their claim was no longer current"
            );
        }
    }
}

fn counter<'a>(counters: &'a Counters, verdict: &Verdict) -> &'a AtomicU64 {
    match verdict {
        Verdict::Retry(_) => &counters.failed,
        Verdict::Release => &counters.released,
        Verdict::Snooze(_) | Verdict::Cancel | Verdict::Dead => &counters.other,
    }
}
