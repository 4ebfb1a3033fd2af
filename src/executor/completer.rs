//! Records outcomes in batches.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::hand_on::{Next, Turn};
use super::in_flight::{InFlight, Lease};
use super::stats::{Counters, add};
use crate::backoff::Reconnect;
use crate::error::{Error, Result, warn_of};
use crate::job::{Fence, Job, JobId, NodeId};
use crate::message::WakeUp;
use crate::store::{GroupTurn, HandedOn, Hint, JobStore, LONGEST_HOLD, Settlement, Verdict};

/// Outcomes recorded with one statement.
const BATCH: usize = 1000;
/// Jobs of groups claimed with one statement, beside those that are recorded.
const WANTED: usize = 2000;
/// How often workers may run before an outcome is recorded, so that theirs are recorded with it.
const GATHER_TURNS: usize = 16;
/// How long a job waits of which the database takes no outcome at all.
const PUT_OFF: Duration = Duration::from_secs(60);
// Else nobody would wait for it.
const _: () = assert!(PUT_OFF.as_secs() < LONGEST_HOLD.as_secs());
/// Outcomes that may wait. When it is full, workers wait with theirs and hold their slots: a slow database slows the claims.
const BACKLOG: usize = 4 * BATCH;

/// How an attempt ended whose handler did not use its transaction.
#[derive(Debug)]
pub(super) enum Report {
    Done(Fence),
    /// Done, all of them, and others of their group may follow in their place.
    InTurn(Vec<Fence>, Turn),
    Settled(Settlement),
    /// Somebody waits until all that was handed in before is recorded.
    Recorded(oneshot::Sender<()>),
}

/// Where workers hand in outcomes.
#[derive(Clone, Debug)]
pub(super) struct Reports(mpsc::Sender<Report>);

impl Reports {
    pub(super) async fn send(&self, report: Report) {
        // Fails only after the node lost its lease, when every outcome would be refused.
        let _ = self.0.send(report).await;
    }

    /// Hands in an outcome and waits until it is recorded. `false`: nobody records any more.
    pub(super) async fn record(&self, report: Report) -> bool {
        self.send(report).await;
        self.recorded().await
    }

    /// Waits until all that was handed in before is recorded. `false`: nobody records any more.
    pub(super) async fn recorded(&self) -> bool {
        let (done, recorded) = oneshot::channel();
        self.send(Report::Recorded(done)).await;
        recorded.await.is_ok()
    }

    /// Whether it could be handed in at once.
    pub(super) fn try_send(&self, report: Report) -> bool {
        match self.0.try_send(report) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => true,
            Err(mpsc::error::TrySendError::Full(_)) => false,
        }
    }
}

/// Takes outcomes from all workers and records them: one at once when it is idle, hundreds with one statement under load,
/// because what arrives while a statement runs makes the next batch.
pub(super) struct Completer {
    pub(super) store: Arc<dyn JobStore>,
    pub(super) node: NodeId,
    pub(super) in_flight: Arc<InFlight>,
    pub(super) counters: Arc<Counters>,
    pub(super) wakeup: Arc<WakeUp>,
    pub(super) next: Weak<dyn Next>,
    /// Record what was handed in, and end: who has not handed in by now never will.
    pub(super) finish: CancellationToken,
    /// The lease is lost: nothing will be accepted any more.
    pub(super) lost: CancellationToken,
}

impl Completer {
    pub(super) fn channel() -> (Reports, mpsc::Receiver<Report>) {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        (Reports(sender), receiver)
    }

    /// Runs until everything is recorded and all workers are gone (or it is told to finish), or the lease is lost.
    pub(super) async fn run(self, mut reports: mpsc::Receiver<Report>) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut finishing = false;
        loop {
            tokio::select! {
                received = reports.recv_many(&mut batch, BATCH) => if received == 0 { return },
                () = self.lost.cancelled() => return,
                () = self.finish.cancelled(), if !finishing => {
                    finishing = true;
                    reports.close();
                }
            }
            self.gather(&mut reports, &mut batch).await;
            self.write(&mut batch).await;
        }
    }

    /// Lets what ends at the same time join in: fewer statements record the same. The only job in hand is recorded at once; beside long
    /// ones it costs a few turns of the scheduler, no time.
    async fn gather(&self, reports: &mut mpsc::Receiver<Report>, batch: &mut Vec<Report>) {
        for _ in 0..GATHER_TURNS {
            if batch.len() >= self.in_flight.len().min(BATCH) {
                return;
            }
            tokio::task::yield_now().await;
            while batch.len() < BATCH
                && let Ok(report) = reports.try_recv()
            {
                batch.push(report);
            }
        }
    }

    /// Records outcomes. Returns the jobs whose outcome was accepted.
    pub(super) async fn write(&self, batch: &mut Vec<Report>) -> Vec<JobId> {
        let mut done = Vec::with_capacity(batch.len());
        let mut settled = Vec::new();
        let mut turns = Vec::new();
        let mut waiting = Vec::new();
        for report in batch.drain(..) {
            match report {
                Report::Done(fence) => done.push(fence),
                Report::InTurn(ended, turn) => turns.push((ended, turn)),
                Report::Settled(settlement) => settled.push(settlement),
                Report::Recorded(done) => waiting.push(done),
            }
        }
        let mut accepted = Vec::new();
        if !turns.is_empty() {
            accepted = self.hand_on(turns, &mut done).await;
        }
        if !done.is_empty() {
            let completed = self.complete(done).await;
            if accepted.is_empty() {
                accepted = completed;
            } else {
                accepted.extend(completed);
            }
        }
        if !settled.is_empty() {
            accepted.extend(self.settle(settled).await);
        }
        for done in waiting {
            // Who waited may be gone.
            let _ = done.send(());
        }
        accepted
    }

    /// Records that jobs are done, and goes on with their groups. Adds to `done` what is to be recorded without that.
    async fn hand_on(&self, turns: Vec<(Vec<Fence>, Turn)>, done: &mut Vec<Fence>) -> Vec<JobId> {
        let mut accepted = Vec::new();
        let mut turns = turns.into_iter().peekable();
        while turns.peek().is_some() {
            let mut wanted = 0;
            let mut part = Vec::new();
            while let Some((ended, turn)) =
                turns.next_if(|(_, turn)| part.is_empty() || wanted + turn.group.wanted <= WANTED)
            {
                wanted += turn.group.wanted;
                part.push((ended, turn));
            }
            accepted.extend(self.hand_on_part(part, done).await);
        }
        accepted
    }

    async fn hand_on_part(&self, mut turns: Vec<(Vec<Fence>, Turn)>, done: &mut Vec<Fence>) -> Vec<JobId> {
        // Each job once: of two claims of one, only ids would tell which was accepted.
        let mut seen = HashSet::with_capacity(turns.len());
        for (ended, _) in &mut turns {
            done.extend(ended.extract_if(.., |fence| !seen.insert(fence.id)));
        }
        let fences: Vec<Fence> = turns.iter().flat_map(|(ended, _)| ended).copied().collect();
        let Some(next) = self.next.upgrade().filter(|_| !self.lost.is_cancelled()) else {
            // Whoever retires the node frees what it holds.
            done.extend(fences);
            return Vec::new();
        };
        let claiming = next.claiming();
        if claiming.is_none() {
            for (_, turn) in &mut turns {
                turn.end();
            }
        }
        // Known before the claim has a number: a look that comes later does not take them for lost.
        let new = |turn: &Turn| {
            (turn.lease.is_none() && turn.group.wanted > 0).then(|| self.in_flight.lease(turn.group.lease))
        };
        let mut turns: Vec<(Turn, Option<Lease>)> =
            turns.into_iter().map(|(_, turn)| (new(&turn), turn)).map(|(new, turn)| (turn, new)).collect();
        let groups: Vec<GroupTurn> = turns.iter().map(|(turn, _)| turn.group.clone()).collect();
        let handed = match self.store.hand_on(self.node, next.number(), &fences, &groups, next.kinds()).await {
            Ok(handed) => handed,
            Err(error) => {
                // It may have claimed something. What is done is recorded once more, and refused if it was.
                tracing::debug!(%error, "the next jobs of groups could not be claimed with the end of those before them");
                next.failed(&error);
                if error.kept_nothing() {
                    turns.iter_mut().filter_map(|(_, new)| new.take()).for_each(Lease::free);
                }
                done.extend(fences);
                return Vec::new();
            }
        };
        let HandedOn { accepted, next: jobs } = handed;
        self.in_flight.add(jobs.iter());
        add(&self.counters.done, accepted.len());
        add(&self.counters.claimed, jobs.len());
        self.wakeup.bells.ring(accepted.iter().copied());
        let taken: HashSet<JobId> = accepted.iter().copied().collect();
        let (gone, left): (Vec<Fence>, Vec<Fence>) = fences.into_iter().partition(|fence| taken.contains(&fence.id));
        done.extend(left);
        let mut lines: HashMap<String, Vec<Job>> = HashMap::with_capacity(turns.len());
        for job in jobs {
            if let Some(group) = job.terms.group.clone() {
                lines.entry(group).or_default().push(job);
            }
        }
        let mut freed = false;
        for (mut turn, new) in turns {
            match lines.remove(&turn.group.group) {
                Some(jobs) => {
                    if let Some(new) = new {
                        turn.leased(new);
                    }
                    next.start(jobs, turn);
                }
                None => {
                    freed = true;
                    turn.lease.into_iter().chain(new).for_each(Lease::free);
                }
            }
        }
        // Groups that were handed on are not free, and need no round.
        self.in_flight.forget(gone.into_iter());
        if freed {
            self.in_flight.gate.notify_one();
        }
        accepted
    }

    async fn complete(&self, fences: Vec<Fence>) -> Vec<JobId> {
        let accepted = self.record(&fences).await;
        add(&self.counters.done, accepted.len());
        self.wakeup.bells.ring(accepted.iter().copied());
        self.refused("done", fences.len() - accepted.len());
        self.out_of_hand(fences.into_iter(), accepted.len());
        accepted
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<JobId> {
        let accepted = self.record(&settlements).await;
        let timers = settlements.iter().any(|s| matches!(s.verdict, Verdict::Retry(_) | Verdict::Snooze(_)));
        let released = settlements.iter().any(|s| s.verdict == Verdict::Release);
        self.wakeup.tell(timers.then_some(Hint::Timer).into_iter().chain(released.then_some(Hint::Any)));
        let taken: HashSet<JobId> = accepted.iter().copied().collect();
        for settlement in settlements.iter().filter(|settlement| taken.contains(&settlement.fence.id)) {
            add(counter(&self.counters, &settlement.verdict), 1);
        }
        self.wakeup.bells.ring(accepted.iter().copied());
        self.refused("settled", settlements.len() - accepted.len());
        self.out_of_hand(settlements.iter().map(|s| s.fence), accepted.len());
        accepted
    }

    fn out_of_hand(&self, fences: impl ExactSizeIterator<Item = Fence> + Clone, accepted: usize) {
        if accepted == fences.len() {
            self.in_flight.remove(fences);
        } else {
            // All of them: a job may be there twice, with two claims of which one was accepted. Naming that does nothing.
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

    /// Records items, whatever it takes: again after an outage, in halves after a refusal of the whole batch, so that one bad
    /// item can't hold up the others. Returns the jobs whose were accepted.
    async fn record<T: Record>(&self, items: &[T]) -> Vec<JobId> {
        let mut delays = Reconnect::new(Duration::from_secs(2));
        let mut accepted = Vec::new();
        let mut rest = items;
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
                }
                Err(error) if error.is_retryable() => {
                    warn_of!(error, waiting = rest.len(), "outcomes could not be recorded; trying again");
                    self.pause(&mut delays).await;
                }
                Err(error) if part > 1 => {
                    // In halves: of a thousand with one bad among them, twenty statements record the others.
                    part = part.div_ceil(2);
                    tracing::warn!(%error, part, "a batch of outcomes was refused by the database; recording it in parts");
                }
                Err(error) => {
                    self.give_up(rest[0].fence(), &error).await;
                    rest = &rest[1..];
                }
            }
        }
        accepted
    }

    /// An outcome that the database refuses for good. The handler ran, so the attempt is spent: a job that runs and can't end must not run for
    /// ever. It becomes a dead letter that says why; if that is refused too, it waits a while, and then is tried again.
    async fn give_up(&self, fence: Fence, error: &Error) {
        let why = format!("its outcome could not be recorded: {error}");
        let dead = Settlement::new(fence, Verdict::Dead).error(&why, None);
        let dead = [dead];
        if let Err(again) = self.through_outages(|| self.store.settle(self.node, &dead)).await {
            tracing::error!(job = %fence.id, %error, %again, "an outcome can't be recorded, nor the job be made a dead letter; it waits");
            if let Err(error) = self.through_outages(|| self.store.put_off(self.node, fence, PUT_OFF)).await {
                tracing::error!(job = %fence.id, %error, "the job could not be put off; it is given back");
                // First out of hand: what still counts as known when the suspicion is looked into is not given back.
                self.in_flight.remove(std::iter::once(fence));
                self.in_flight.suspect();
            }
        } else {
            tracing::error!(job = %fence.id, %error, "an outcome can't be recorded; the job is a dead letter");
        }
    }

    /// Repeats a call for as long as only an outage keeps it from an answer, and the lease lasts.
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
trait Record: Sized + Sync {
    /// Whose outcome it is.
    fn fence(&self) -> Fence;

    async fn record(store: &dyn JobStore, node: NodeId, items: &[Self]) -> Result<Vec<JobId>>;
}

#[async_trait]
impl Record for Fence {
    fn fence(&self) -> Fence {
        *self
    }

    async fn record(store: &dyn JobStore, node: NodeId, items: &[Self]) -> Result<Vec<JobId>> {
        store.complete(node, items).await
    }
}

#[async_trait]
impl Record for Settlement {
    fn fence(&self) -> Fence {
        self.fence
    }

    async fn record(store: &dyn JobStore, node: NodeId, items: &[Self]) -> Result<Vec<JobId>> {
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
