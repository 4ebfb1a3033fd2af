//! Jobs for external workers: handed out from the table, as the broker's queue has room.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::key::Key;
use super::portion::Portion;
use super::singly::{Fate, Row, Singly, UNANSWERED, pause};
use super::{Incarnation, up};
use crate::backoff::Reconnect;
use crate::broker::{Broker, Lane, Outgoing, wire};
use crate::error::{Error, Result, warn_of};
use crate::executor::drain::LET_GO;
use crate::executor::jitter;
use crate::executor::stats::add;
use crate::job::{Fence, HandOutNumber, JobId};
use crate::store::{Hint, Settlement, Store, Verdict};

/// Time until the second look at a queue that is full, or that nobody consumes: a worker may have taken all of it meanwhile.
const LOOK_FIRST: Duration = Duration::from_millis(5);
/// Longest time between two looks; also the time after a refusal.
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
///
/// While the confirms of a portion are on their way, the next is handed out: the database and the broker work at the same time. No more than
/// that: whatever is not confirmed has to be taken back, and its lease runs.
pub(super) async fn run<S: Store>(node: Arc<Incarnation<S>>, broker: Arc<Broker>, queue: ExternalQueue, key: Arc<Key>) {
    let stop = node.stop_claiming.clone();
    let (mut portion, mut singly) = (Portion::new(node.messages.shared.limits, 2), Singly::default());
    let feed = Feed { node, broker, queue, key };
    let mut pauses = Pauses::new();
    let mut handed = None;
    loop {
        // Only waits are cut short by a stop: what was handed out must be published, or taken back.
        if handed.is_none() {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = pauses.over(&feed) => {}
            }
        }
        let publishing = handed.as_ref().map_or(0, |handed: &Handed| handed.rows.len());
        // Those that are to be taken back come first.
        let aged = handed.as_ref().is_some_and(|handed| feed.is_aged(handed));
        let looks = handed.is_none() || pauses.none() && !aged && !stop.is_cancelled();
        let (sent, found) = tokio::join!(async { Some(feed.publish(&mut singly, handed.take()?).await) }, async {
            if looks { Some(feed.hand_out(&mut portion, publishing).await) } else { None }
        },);
        handed = pauses.heed(&feed.queue.name, sent, found);
    }
}

/// Jobs that were handed out and are not published yet.
struct Handed {
    rows: Vec<Row>,
    messages: Vec<(JobId, Outgoing)>,
    /// More may wait.
    more: bool,
    /// When the database answered. Their leases began a bit before that.
    came: Instant,
}

/// What a look at a queue led to.
enum Found {
    Handed(Handed),
    /// The broker's queue is full, or nobody consumes it.
    Full,
    /// The same, if all that was being published is counted.
    FullSoon,
    /// No job waits.
    Empty,
}

/// What became of a portion.
enum Sent {
    All,
    /// Something was refused.
    Back,
}

/// When to look next.
enum Next {
    Now,
    /// When there is work.
    Told,
    After(Duration),
}

/// How long not to hand out.
struct Pauses {
    next: Next,
    /// After errors.
    delays: Reconnect,
    /// After a look at a queue that was full.
    full: Duration,
}

impl Pauses {
    fn new() -> Self {
        Self { next: Next::Now, delays: Reconnect::new(Duration::from_secs(5)), full: LOOK_FIRST }
    }

    fn none(&self) -> bool {
        matches!(self.next, Next::Now)
    }

    /// Waits until it is time to look, and the broker is up.
    async fn over<S: Store>(&mut self, feed: &Feed<S>) {
        match self.next {
            Next::Now => {}
            Next::Told => feed.node.rung(&feed.queue.name, jitter(feed.node.poll_interval)).await,
            Next::After(pause) => tokio::time::sleep(pause).await,
        }
        self.next = Next::Now;
        up(&feed.broker).await;
    }

    /// What follows. Whatever was handed out is published without a pause.
    fn heed(&mut self, queue: &str, sent: Option<Result<Sent>>, found: Option<Result<Found>>) -> Option<Handed> {
        let mut handed = None;
        match found {
            Some(Ok(Found::Handed(found))) => {
                self.next = if found.more { Next::Now } else { Next::Told };
                self.full = LOOK_FIRST;
                handed = Some(found);
            }
            Some(Ok(Found::Full)) => {
                self.next = Next::After(self.full);
                self.full = (self.full * 2).min(LOOK);
            }
            Some(Ok(Found::FullSoon)) | None => {}
            Some(Ok(Found::Empty)) => {
                self.next = Next::Told;
                self.delays.reset();
            }
            Some(Err(error)) => self.failed(queue, &error),
        }
        match sent {
            Some(Ok(Sent::Back)) => self.next = Next::After(LOOK),
            Some(Err(error)) => self.failed(queue, &error),
            Some(Ok(Sent::All)) => self.delays.reset(),
            None => {}
        }
        handed
    }

    fn failed(&mut self, queue: &str, error: &Error) {
        warn_of!(error, queue = %queue, "jobs could not be handed to external workers; trying again");
        self.next = Next::After(self.delays.next_delay());
    }
}

struct Feed<S: Store> {
    node: Arc<Incarnation<S>>,
    broker: Arc<Broker>,
    queue: ExternalQueue,
    key: Arc<Key>,
}

impl<S: Store> Feed<S> {
    /// Hands out what the broker's queue has room for, beside so many that are being published.
    async fn hand_out(&self, portion: &mut Portion, publishing: usize) -> Result<Found> {
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
            return Ok(Found::Full);
        }
        // Some of those may be among what was found.
        let room = room.saturating_sub(publishing);
        if room == 0 {
            return Ok(Found::FullSoon);
        }
        let limit = room.min(portion.count());
        let jobs = self.node.store.hand_out(name, limit, *lease, HandOutNumber::random()).await?;
        if jobs.is_empty() {
            return Ok(Found::Empty);
        }
        let bytes = jobs.iter().map(|job| job.payload.as_bytes().len()).sum();
        portion.took(jobs.len(), bytes);
        let (more, rows) = (jobs.len() == limit, jobs.iter().map(Row::of).collect());
        let messages = jobs.into_iter().map(|job| (job.id, wire::external(names, job, key))).collect();
        Ok(Found::Handed(Handed { rows, messages, more, came: Instant::now() }))
    }

    /// The confirms of those before took long. Workers would get these with little of their lease left, and it would cost an attempt.
    fn is_aged(&self, handed: &Handed) -> bool {
        handed.came.elapsed() > self.queue.lease / 4
    }

    /// Publishes them, and takes back what did not get to the broker.
    async fn publish(&self, singly: &mut Singly, handed: Handed) -> Result<Sent> {
        if self.is_aged(&handed) {
            let back: Vec<Fence> = handed.rows.iter().map(|row| row.fence).collect();
            return self.take_back(&back).await.map(|()| Sent::Back);
        }
        let Handed { rows, messages, .. } = handed;
        let fates = tokio::select! {
            fates = singly.publish(&self.broker, messages) => fates,
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
        Ok(if back.is_empty() { Sent::All } else { Sent::Back })
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
            self.node.messages.shared.wakeup.tell([Hint::Timer]);
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
