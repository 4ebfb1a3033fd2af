//! Records outcomes in batches.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::in_flight::InFlight;
use super::stats::{Counters, add};
use crate::backoff::Reconnect;
use crate::error::Result;
use crate::job::{Fence, JobId, NodeId};
use crate::message::WakeUp;
use crate::store::{Hint, JobStore, Settlement, Verdict};

/// Outcomes recorded with one statement.
const BATCH: usize = 1000;
/// How often workers may run before an outcome is recorded, so that theirs are recorded with it.
const GATHER_TURNS: usize = 16;
/// Outcomes that may wait. When it is full, workers wait with theirs and hold their slots: a slow database slows the claims.
const BACKLOG: usize = 4 * BATCH;

/// How an attempt ended whose handler did not use its transaction.
#[derive(Debug)]
pub(super) enum Report {
    Done(Fence),
    Settled(Settlement),
}

/// Where workers hand in outcomes.
#[derive(Clone, Debug)]
pub(super) struct Reports(mpsc::Sender<Report>);

impl Reports {
    pub(super) async fn send(&self, report: Report) {
        // Fails only after the node lost its lease, when every outcome would be refused.
        let _ = self.0.send(report).await;
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
        for report in batch.drain(..) {
            match report {
                Report::Done(fence) => done.push(fence),
                Report::Settled(settlement) => settled.push(settlement),
            }
        }
        let mut accepted = Vec::new();
        if !done.is_empty() {
            accepted = self.complete(done).await;
        }
        if !settled.is_empty() {
            accepted.extend(self.settle(settled).await);
        }
        accepted
    }

    async fn complete(&self, fences: Vec<Fence>) -> Vec<JobId> {
        let accepted = self.record(&fences).await;
        add(&self.counters.done, accepted.len());
        self.wakeup.bells.ring(accepted.iter().copied());
        self.refused("done", fences.len() - accepted.len());
        self.in_flight.remove(fences.into_iter());
        accepted
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<JobId> {
        let accepted = self.record(&settlements).await;
        let timers = settlements.iter().any(|s| matches!(s.verdict, Verdict::Retry(_) | Verdict::Snooze(_)));
        let released = settlements.iter().any(|s| s.verdict == Verdict::Release);
        self.wakeup.tell(timers.then_some(Hint::Timer).into_iter().chain(released.then_some(Hint::Any)));
        for settlement in &settlements {
            add(counter(&self.counters, &settlement.verdict), 1);
        }
        self.wakeup.bells.ring(accepted.iter().copied());
        self.refused("settled", settlements.len() - accepted.len());
        self.in_flight.remove(settlements.iter().map(|s| s.fence));
        accepted
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

    /// Records items, whatever it takes: again after an outage, one by one after a refusal of the whole batch, so that one bad
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
                    tracing::warn!(%error, waiting = rest.len(), "outcomes could not be recorded; trying again");
                    tokio::select! {
                        () = self.lost.cancelled() => {}
                        () = tokio::time::sleep(delays.next_delay()) => {}
                    }
                }
                Err(error) if part > 1 => {
                    tracing::warn!(%error, "a batch of outcomes was refused by the database; recording them one by one");
                    part = 1;
                }
                Err(error) => {
                    tracing::error!(%error, "an outcome can't be recorded; the job is given back");
                    self.in_flight.suspect();
                    rest = &rest[1..];
                }
            }
        }
        accepted
    }
}

/// An outcome that a store can record.
#[async_trait]
trait Record: Sized + Sync {
    async fn record(store: &dyn JobStore, node: NodeId, items: &[Self]) -> Result<Vec<JobId>>;
}

#[async_trait]
impl Record for Fence {
    async fn record(store: &dyn JobStore, node: NodeId, items: &[Self]) -> Result<Vec<JobId>> {
        store.complete(node, items).await
    }
}

#[async_trait]
impl Record for Settlement {
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
