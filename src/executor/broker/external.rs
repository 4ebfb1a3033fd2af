//! Jobs for external workers, handed out from the table while the broker's queue has capacity.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Reconnect;
use crate::broker::{Broker, Outgoing, QueueRole, wire};
use crate::error::{Error, Result, warn_of};
use crate::executor::broker::batch_sizer::BatchSizer;
use crate::executor::broker::isolating_publisher::{IsolatingPublisher, PublishOutcome, Row, pause, refusal};
use crate::executor::broker::mode::up;
use crate::executor::broker::report_key::CachedReportKey;
use crate::executor::broker::stop::after;
use crate::executor::handler::external_queue::ExternalQueue;
use crate::executor::metrics::stats::add;
use crate::executor::node::Node;
use crate::executor::node::cancellations::LET_GO;
use crate::executor::node::failing::TaskState;
use crate::job::{Fence, HandOutNumber, JobId};
use crate::store::nodes::{CLAIMS, CONSUMERS};
use crate::store::{Hint, Settlement, Verdict};

/// Its failures, for the log and for the node's row.
const FAILED: &str = "jobs could not be handed to external workers";
const KEPT: &str = "jobs that did not get to the broker could not be taken back";
/// Time until the second check of a queue that is full or has no consumer: a worker may have taken all of it meanwhile.
const LOOK_FIRST: Duration = Duration::from_millis(5);
/// Longest time between two checks, and the time after a refusal.
const LOOK: Duration = Duration::from_millis(200);
/// How long a stopping node waits for confirms. The rest of [`LET_GO`], its limit for all of this, is for taking back the jobs without one.
const CONFIRMS: Duration = Duration::from_secs(2);
/// How long it then waits for the database to answer.
const ANSWERS: Duration = Duration::from_secs(5);
const _: () = assert!(CONFIRMS.as_secs() < LET_GO.as_secs());

/// Hands out jobs until the node stops claiming.
///
/// While the confirms of one batch are on their way, the next is handed out, so that the database and the broker work at the same time. It
/// goes no further than that: unconfirmed jobs have to be taken back, and their leases run.
pub(crate) async fn run(node: Arc<Node>, broker: Arc<Broker>, queue: ExternalQueue, key: Arc<CachedReportKey>) {
    let stop = node.stop_claiming.clone();
    let (mut batch_sizer, mut isolating_publisher) =
        (BatchSizer::new(node.job_limits, 2), IsolatingPublisher::default());
    let feed = Feed { node, broker, queue, key };
    let mut pauses = Pauses::new(&feed);
    let mut handed = None;
    loop {
        // A stop cuts only waits short: jobs that were handed out must be published or taken back.
        if handed.is_none() {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = pauses.over(&feed) => {}
            }
        }
        let publishing = handed.as_ref().map_or(0, |handed: &Handed| handed.rows.len());
        // Jobs to be taken back come first.
        let aged = handed.as_ref().is_some_and(|handed| feed.is_aged(handed));
        let looks = handed.is_none() || pauses.none() && !aged && !stop.is_cancelled();
        let (sent, found) =
            tokio::join!(async { Some(feed.publish(&mut isolating_publisher, handed.take()?).await) }, async {
                if looks { Some(feed.hand_out(&mut batch_sizer, publishing).await) } else { None }
            },);
        handed = pauses.heed(feed.queue.name(), sent, found);
    }
}

/// Jobs that were handed out and are not published yet.
struct Handed {
    rows: Vec<Row>,
    messages: Vec<(JobId, Outgoing)>,
    /// Whether more jobs may wait.
    more: bool,
    /// When the database answered. The leases began shortly before that.
    came: Instant,
}

/// The result of checking a queue.
enum Found {
    Handed(Handed),
    /// The broker's queue is full.
    Full,
    /// The broker's queue, of this name, has no consumer.
    Unconsumed(String),
    /// It is full, counting all jobs that are being published.
    FullSoon,
    /// No job waits.
    Empty,
}

/// The result of publishing a batch.
enum Sent {
    All,
    /// Some were taken back.
    Back,
}

/// When to check next.
enum NextPoll {
    Now,
    /// When there is work.
    WhenNotified,
    After(Duration),
}

/// When to hand out next, and how long to pause.
struct Pauses {
    next: NextPoll,
    /// Pauses after errors.
    delays: Reconnect,
    /// The pause after finding the queue full.
    full: Duration,
    /// Whether jobs can be handed out.
    state: TaskState,
    /// Whether those that did not get to the broker can be taken back. A hand-out that succeeds says nothing of that.
    back: TaskState,
    /// Whether there are workers.
    consumers: TaskState,
}

impl Pauses {
    fn new(feed: &Feed) -> Self {
        let state = |task, failed| feed.node.failing.task(task, Some(feed.queue.name()), failed);
        Self {
            next: NextPoll::Now,
            delays: Reconnect::new(Duration::from_secs(5)),
            full: LOOK_FIRST,
            state: state(CLAIMS, FAILED),
            back: state("take-back", KEPT),
            consumers: state(CONSUMERS, FAILED),
        }
    }

    fn none(&self) -> bool {
        matches!(self.next, NextPoll::Now)
    }

    /// Waits until the next check is due and the broker is up.
    async fn over(&mut self, feed: &Feed) {
        match self.next {
            NextPoll::Now => {}
            NextPoll::WhenNotified => feed.node.woken_for(feed.queue.name()).await,
            NextPoll::After(pause) => tokio::time::sleep(pause).await,
        }
        self.next = NextPoll::Now;
        if !feed.broker.is_up() {
            // That is told elsewhere.
            for state in [&mut self.state, &mut self.back, &mut self.consumers] {
                state.succeeded();
            }
        }
        up(&feed.broker).await;
    }

    /// Sets the next check. Jobs that were handed out are published without a pause.
    fn heed(&mut self, queue: &str, sent: Option<Result<Sent>>, found: Option<Result<Found>>) -> Option<Handed> {
        let mut handed = None;
        match &found {
            Some(Ok(Found::Unconsumed(at_broker))) => {
                self.consumers.failed(&format!("the queue {at_broker} at the broker has no consumer"));
            }
            Some(Ok(_)) => self.consumers.succeeded(),
            Some(Err(_)) | None => {}
        }
        match found {
            Some(Ok(found)) => {
                self.state.succeeded();
                handed = self.found(found);
            }
            Some(Err(error)) => {
                self.state.failed(&error);
                self.pause(queue, FAILED, &error);
            }
            None => {}
        }
        match sent {
            Some(Ok(sent)) => {
                self.back.succeeded();
                match sent {
                    Sent::All => self.delays.reset(),
                    Sent::Back => self.next = NextPoll::After(LOOK),
                }
            }
            Some(Err(error)) => {
                self.back.failed(&error);
                self.pause(queue, KEPT, &error);
            }
            None => {}
        }
        handed
    }

    fn found(&mut self, found: Found) -> Option<Handed> {
        match found {
            Found::Handed(handed) => {
                self.next = if handed.more { NextPoll::Now } else { NextPoll::WhenNotified };
                self.full = LOOK_FIRST;
                return Some(handed);
            }
            Found::Full | Found::Unconsumed(_) => {
                self.next = NextPoll::After(self.full);
                self.full = (self.full * 2).min(LOOK);
            }
            Found::FullSoon => {}
            Found::Empty => {
                self.next = NextPoll::WhenNotified;
                self.delays.reset();
            }
        }
        None
    }

    fn pause(&mut self, queue: &str, failed: &str, error: &Error) {
        warn_of!(error, queue = %queue, "{failed}; trying again");
        self.next = NextPoll::After(self.delays.next_delay());
    }
}

struct Feed {
    node: Arc<Node>,
    broker: Arc<Broker>,
    queue: ExternalQueue,
    key: Arc<CachedReportKey>,
}

impl Feed {
    /// Hands out as many jobs as the broker's queue has capacity for, less the `publishing` ones on their way.
    async fn hand_out(&self, batch_sizer: &mut BatchSizer, publishing: usize) -> Result<Found> {
        let ExternalQueue { name, lease, depth } = &self.queue;
        let names = self.broker.names();
        // Read before anything is handed out: without the key no worker could report.
        let key = self.key.get(&self.node).await?;
        self.broker.ensure(&QueueRole::External(name.clone())).await?;
        let room = match self.broker.depth(&names.external(name)).await? {
            // A lease runs from the moment a job is handed out, so nothing is handed out while there is no consumer.
            Some(found) if found.consumers == 0 => return Ok(Found::Unconsumed(names.external(name))),
            Some(found) => depth.saturating_sub(found.messages) as usize,
            None => 0,
        };
        if room == 0 {
            return Ok(Found::Full);
        }
        // Some of those may be among the messages counted.
        let room = room.saturating_sub(publishing);
        if room == 0 {
            return Ok(Found::FullSoon);
        }
        let limit = room.min(batch_sizer.count());
        let jobs = self.node.store.hand_out(name, limit, *lease, HandOutNumber::random()).await?;
        if jobs.is_empty() {
            return Ok(Found::Empty);
        }
        let bytes = jobs.iter().map(|job| job.payload.as_bytes().len()).sum();
        batch_sizer.took(jobs.len(), bytes);
        let (more, rows) = (jobs.len() == limit, jobs.iter().map(Row::of).collect());
        let messages = jobs.into_iter().map(|job| (job.id, wire::external(names, job, key))).collect();
        Ok(Found::Handed(Handed { rows, messages, more, came: Instant::now() }))
    }

    /// Returns whether the confirms of the batch before took long. Workers would get these jobs with little of their lease left, and that
    /// would cost an attempt.
    fn is_aged(&self, handed: &Handed) -> bool {
        handed.came.elapsed() > self.queue.lease / 4
    }

    /// Publishes jobs, and takes back those that did not get to the broker.
    async fn publish(&self, isolating_publisher: &mut IsolatingPublisher, handed: Handed) -> Result<Sent> {
        if self.is_aged(&handed) {
            let back: Vec<Fence> = handed.rows.iter().map(|row| row.fence).collect();
            return self.take_back(&back).await.map(|()| Sent::Back);
        }
        let Handed { rows, messages, .. } = handed;
        let outcomes = tokio::select! {
            outcomes = isolating_publisher.publish(&self.broker, messages, &self.node.stop_claiming) => outcomes,
            // As if no confirm had arrived.
            () = after(&self.node.stop_claiming, CONFIRMS) => vec![PublishOutcome::Later; rows.len()],
        };
        // A job whose confirm did not arrive is taken back too. If the broker got it after all, its worker's report will be refused.
        let (mut back, mut refused) = (Vec::new(), Vec::new());
        for (row, outcome) in rows.iter().zip(outcomes) {
            match outcome {
                PublishOutcome::Acked => {}
                PublishOutcome::Refused(why) => {
                    let Row { fence, kind, attempt, .. } = row;
                    let why = refusal(&why);
                    tracing::warn!(id = %fence.id, %kind, attempt, "a job was not handed out: {why}");
                    refused.push(Settlement::new(*fence, Verdict::Retry(pause(*attempt))).error(&why, None));
                }
                PublishOutcome::Returned | PublishOutcome::Later => back.push(row.fence),
            }
        }
        add(&self.node.counters.handed_out, rows.len() - back.len() - refused.len());
        // The other jobs come first, whatever is wrong with those that were refused.
        let taken = self.take_back(&back).await;
        let spent = self.spend(&refused).await;
        taken.and(spent)?;
        Ok(if back.is_empty() { Sent::All } else { Sent::Back })
    }

    /// Puts jobs back as they were before.
    async fn take_back(&self, back: &[Fence]) -> Result<()> {
        if back.is_empty() {
            return Ok(());
        }
        let store = &self.node.store;
        let taken = self.insist("take back jobs that did not get to the broker", || store.take_back(back)).await?;
        if taken.is_some_and(|taken| taken < back.len() as u64) {
            // A job that was cancelled meanwhile may have held what others wait for.
            self.node.in_flight.admission_due.notify_one();
        }
        Ok(())
    }

    /// Spends an attempt of these jobs.
    async fn spend(&self, refused: &[Settlement]) -> Result<()> {
        if refused.is_empty() {
            return Ok(());
        }
        let store = &self.node.store;
        let record = || store.settle_external(refused);
        if self.insist("record jobs that the broker refused", record).await?.is_some() {
            self.node.wakeup.notify([Hint::Timer]);
            // Other jobs may wait for what these held.
            self.node.in_flight.admission_due.notify_one();
        }
        Ok(())
    }

    /// Repeats a call until it gets an answer. `None`: the node stops and the database does not answer, so leases run out.
    async fn insist<T, F: Future<Output = Result<T>>>(&self, what: &str, call: impl FnMut() -> F) -> Result<Option<T>> {
        tokio::select! {
            answer = insist(what, call) => answer.map(Some),
            () = after(&self.node.stop_claiming, ANSWERS) => Ok(None),
        }
    }
}

/// Repeats a call while it may succeed later. Calls that name jobs by number alone can't fail because of a job's contents.
async fn insist<T, F: Future<Output = Result<T>>>(what: &str, mut call: impl FnMut() -> F) -> Result<T> {
    let mut delays = Reconnect::new(Duration::from_secs(2));
    loop {
        match call().await {
            Err(error) if error.is_retryable() || error.refuses_all() => {
                warn_of!(
                    error,
                    what,
                    "the database did not accept a change of jobs for external workers; trying again"
                );
                tokio::time::sleep(delays.next_delay()).await;
            }
            other => return other,
        }
    }
}
