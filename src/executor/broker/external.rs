//! Jobs for external workers: handed out from the table, as the broker's queue has room.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::key::Key;
use super::portion::Portion;
use super::singly::{Fate, Row, Singly, UNANSWERED, pause};
use super::{Incarnation, up};
use crate::backoff::Reconnect;
use crate::broker::{Broker, Lane, wire};
use crate::error::{Error, Result, warn_of};
use crate::executor::drain::LET_GO;
use crate::executor::jitter;
use crate::executor::stats::add;
use crate::job::{Fence, HandOutNumber};
use crate::store::{Hint, Settlement, Store, Verdict};

/// Time between two looks at a queue that is full, or that nobody consumes.
const LOOK: Duration = Duration::from_millis(200);
/// How long a node that stops waits for confirms: so much less than [`LET_GO`], which it waits for all of this, that what has none is taken back.
const CONFIRMS: Duration = Duration::from_secs(2);
/// How long it waits then for the database to answer.
const ANSWERS: Duration = Duration::from_secs(5);
const _: () = assert!(CONFIRMS.as_secs() < LET_GO.as_secs());

/// A queue whose jobs are run by external workers, over the broker.
///
/// Each job is published whole, with a lease: if the worker has not reported when it ends, the attempt counts as failed and the
/// job is handed out again. What does not fit into the broker's queue waits in the table, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalQueue {
    name: String,
    lease: Duration,
    depth: u32,
}

impl ExternalQueue {
    /// With a lease of 5 minutes and at most 100 jobs waiting in the broker.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), lease: Duration::from_secs(300), depth: 100 }
    }

    /// How long a worker has for a job, the time it waits in the broker included; workers ask for more by `extend`. 1 s to 24 h;
    /// default 5 min.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Most jobs that wait in the broker's queue. 1 to [`BrokerConfig::depth`](crate::BrokerConfig::depth); default 100.
    #[must_use]
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `limit`: how much its queue of the broker takes.
    pub(in crate::executor) fn validate(&self, limit: u32) -> Result<()> {
        let Self { name, lease, depth } = self;
        if *lease < Duration::from_secs(1) || *lease > Duration::from_secs(24 * 3600) {
            return Err(Error::config(format!("the lease of the external queue {name:?} is {lease:?}; use 1s to 24h")));
        }
        if *depth == 0 || *depth > limit {
            return Err(Error::config(format!(
                "the depth of the external queue {name:?} is {depth}; use 1 to {limit}, the most its queue of the broker takes (`broker.depth`)"
            )));
        }
        Ok(())
    }
}

/// Hands out until the node stops claiming.
pub(super) async fn run<S: Store>(node: Arc<Incarnation<S>>, broker: Arc<Broker>, queue: ExternalQueue, key: Arc<Key>) {
    let stop = node.stop_claiming.clone();
    let portion = Portion::new(node.messages.limits);
    let mut feed = Feed { node, broker, queue, key, portion, singly: Singly::default() };
    let mut delays = Reconnect::new(Duration::from_secs(5));
    while !stop.is_cancelled() {
        // Only waits are cut short by a stop: what was handed out must be published, or taken back.
        tokio::select! {
            () = stop.cancelled() => return,
            () = up(&feed.broker) => {}
        }
        let pause = match feed.round().await {
            Ok(Round::More) => {
                delays.reset();
                continue;
            }
            Ok(Round::Full) => LOOK,
            Ok(Round::Empty) => {
                delays.reset();
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = feed.node.rung(&feed.queue.name, jitter(feed.node.poll_interval)) => continue,
                }
            }
            Err(error) => {
                warn_of!(error, queue = %feed.queue.name, "jobs could not be handed to external workers; trying again");
                delays.next_delay()
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

struct Feed<S: Store> {
    node: Arc<Incarnation<S>>,
    broker: Arc<Broker>,
    queue: ExternalQueue,
    key: Arc<Key>,
    portion: Portion,
    singly: Singly,
}

enum Round {
    /// There may be more jobs, and there may be room.
    More,
    /// The broker's queue is full, or nobody consumes it.
    Full,
    /// No job waits.
    Empty,
}

impl<S: Store> Feed<S> {
    async fn round(&mut self) -> Result<Round> {
        let ExternalQueue { name, lease, depth } = &self.queue;
        let names = self.broker.names();
        // Before anything is handed out: without it nobody could report.
        let key = self.key.get(&self.node).await?;
        self.broker.ensure(&Lane::External(name.clone())).await?;
        let room = match self.broker.depth(&names.external(name)).await? {
            // A lease runs from the moment a job is handed out: none is before there is somebody to take it.
            Some(found) if found.consumers > 0 => depth.saturating_sub(found.messages) as usize,
            _ => 0,
        };
        if room == 0 {
            return Ok(Round::Full);
        }
        let limit = room.min(self.portion.count());
        let jobs = self.node.store.hand_out(name, limit, *lease, HandOutNumber::random()).await?;
        if jobs.is_empty() {
            return Ok(Round::Empty);
        }
        let bytes = jobs.iter().map(|job| job.payload.as_bytes().len()).sum();
        self.portion.took(jobs.len(), bytes);
        let rows: Vec<_> = jobs.iter().map(Row::of).collect();
        let messages = jobs.into_iter().map(|job| (job.id, wire::external(names, job, key))).collect();
        let fates = tokio::select! {
            fates = self.singly.publish(&self.broker, messages) => fates,
            // As if no confirm had come.
            () = after(&self.node.stop_claiming, CONFIRMS) => vec![Fate::Later; rows.len()],
        };
        // One whose confirm did not come is taken back too: if it did arrive, its worker's report will be refused.
        let (mut back, mut unanswered) = (Vec::new(), Vec::new());
        for (row, fate) in rows.iter().zip(fates) {
            match fate {
                Fate::Acked => {}
                Fate::Unanswered => {
                    let Row { fence, kind, attempt, .. } = row;
                    tracing::warn!(id = %fence.id, %kind, attempt, "a job was not handed out: {UNANSWERED}");
                    unanswered.push(Settlement::new(*fence, Verdict::Retry(pause(*attempt))).error(UNANSWERED, None));
                }
                Fate::Returned | Fate::Later => back.push(row.fence),
            }
        }
        add(&self.node.counters.handed_out, rows.len() - back.len() - unanswered.len());
        // Whatever is wrong with the one that is to blame, the others come first.
        let taken = self.take_back(&back).await;
        let spent = self.spend(&unanswered).await;
        taken.and(spent)?;
        Ok(match (back.is_empty(), unanswered.is_empty()) {
            (false, _) => Round::Full,
            (true, true) if rows.len() < limit => Round::Empty,
            _ => Round::More,
        })
    }

    /// These are as they were before.
    async fn take_back(&self, back: &[Fence]) -> Result<()> {
        if back.is_empty() {
            return Ok(());
        }
        let store = &self.node.store;
        let taken = self.insist("take back jobs that did not get to the broker", || store.take_back(back)).await?;
        if taken.is_some_and(|taken| taken < back.len() as u64) {
            // One that was cancelled meanwhile may have held what others wait for.
            self.node.in_flight.gate.notify_one();
        }
        Ok(())
    }

    /// These cost an attempt.
    async fn spend(&self, unanswered: &[Settlement]) -> Result<()> {
        if unanswered.is_empty() {
            return Ok(());
        }
        let store = &self.node.store;
        let record = || store.settle_external(unanswered);
        if self.insist("record what the broker did not answer", record).await?.is_some() {
            self.node.messages.wakeup.tell([Hint::Timer]);
            // What the job held may be what others wait for.
            self.node.in_flight.gate.notify_one();
        }
        Ok(())
    }

    /// `None`: the node stops, and the database does not answer: leases run out.
    async fn insist<T, F: Future<Output = Result<T>>>(&self, what: &str, call: impl FnMut() -> F) -> Result<Option<T>> {
        tokio::select! {
            answer = insist(what, call) => answer.map(Some),
            () = after(&self.node.stop_claiming, ANSWERS) => Ok(None),
        }
    }
}

/// So long after a stop.
async fn after(stop: &CancellationToken, patience: Duration) {
    stop.cancelled().await;
    tokio::time::sleep(patience).await;
}

/// Repeats for as long as it may succeed later: what is named by its number alone does not fail for what is in it.
async fn insist<T, F: Future<Output = Result<T>>>(what: &str, mut call: impl FnMut() -> F) -> Result<T> {
    let mut delays = Reconnect::new(Duration::from_secs(2));
    loop {
        match call().await {
            Err(error) if error.is_retryable() => {
                warn_of!(
                    error,
                    what,
                    "the database did not take what became of jobs for external workers; trying again"
                );
                tokio::time::sleep(delays.next_delay()).await;
            }
            other => return other,
        }
    }
}
