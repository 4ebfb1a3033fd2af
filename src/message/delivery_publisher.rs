//! Publishes deliveries of committed rows to the executors, through the broker.
//!
//! ```text
//!  flush:   select_rows()  selects the messages for the broker; claims from the table pass over their rows for HEAD_START
//!  commit:  publish()      sends deliveries of up to 32 rows, with pipelined confirms
//!             acked         an executor claims the rows by id
//!             refused       (full, no queue, unknown) the rows are unhidden: executors claim them from the table
//!             lost          nothing is done: the rows become visible when HEAD_START is over
//! ```
//!
//! A delivery is a head start and nothing more. Whatever happens to it, the rows exist, and nothing has to be repaired.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::{RouteCounts, WakeUp};
use crate::broker::wire::{self, ROWS, RowRef};
use crate::broker::{Broker, Outgoing, Published};
use crate::job::{Due, EVENT_QUEUE, Fence, JobId, JobMessage, REPLY_QUEUE};
use crate::store::{Enqueue, Hint};

/// Rows whose deliveries may wait for their confirm in this process. Further rows stay in the table.
const UNCONFIRMED: usize = 5_000;
/// Time between two checks of a broker queue that is open or has no consumer.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two checks after the broker refused something because the queue was full.
const CHECK_INTERVAL_FULL: Duration = Duration::from_millis(100);
/// How long a queue may refuse everything though each check finds capacity.
const STUCK_AFTER: Duration = Duration::from_secs(5);
/// A queue that was not sent to for this long is not checked any more.
const FORGET_AFTER: Duration = Duration::from_secs(30);

/// A row on its way through the broker.
pub(super) struct HiddenRow {
    pub(super) id: JobId,
    pub(super) queue: String,
    pub(super) kind: String,
}

/// The rows of a delivery.
struct PendingDelivery {
    queue: String,
    ids: Vec<JobId>,
}

/// Publishes the deliveries of this process.
pub(crate) struct DeliveryPublisher {
    broker: Arc<Broker>,
    jobs: Arc<dyn Enqueue>,
    pub(super) wakeup: Arc<WakeUp>,
    /// Most messages that may wait in a queue of the broker.
    depth: u32,
    targets: Mutex<HashMap<String, Arc<TargetQueue>>>,
    unconfirmed: AtomicUsize,
    /// Where the tasks run: a commit may be reported from a thread without a runtime.
    runtime: Handle,
    /// Signals that all deliveries are published, or their rows unhidden.
    idle: Notify,
}

/// State of one queue of the broker.
#[derive(Debug)]
struct TargetQueue {
    state: Mutex<TargetState>,
    /// The queue refused something, or is used again: check it now.
    look: Notify,
}

#[derive(Debug)]
struct TargetState {
    /// The queue has a consumer and free capacity.
    open: bool,
    full: bool,
    /// Number of consumers at the last check.
    consumers: u32,
    used: Instant,
    /// Since when the queue has refused everything, unless a check found it full.
    refuses: Option<Instant>,
}

impl DeliveryPublisher {
    pub(super) fn new(broker: Arc<Broker>, jobs: Arc<dyn Enqueue>, wakeup: Arc<WakeUp>, depth: u32) -> Arc<Self> {
        Arc::new(Self {
            broker,
            jobs,
            wakeup,
            depth,
            targets: Mutex::default(),
            unconfirmed: AtomicUsize::new(0),
            runtime: Handle::current(),
            idle: Notify::new(),
        })
    }

    pub(super) fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }

    /// Selects the messages that go through the broker. Those that are `taken` go another way.
    pub(super) fn select_rows(
        self: &Arc<Self>,
        messages: &[JobMessage],
        taken: impl Fn(JobId) -> bool,
    ) -> HashSet<JobId> {
        let (mut held, mut given) = (HashSet::new(), HashSet::new());
        if !self.broker.is_up() {
            return held;
        }
        let mut room = UNCONFIRMED.saturating_sub(self.unconfirmed.load(Ordering::Relaxed));
        let mut targets: HashMap<&str, bool> = HashMap::new();
        for message in messages {
            // A given id that is sent twice is one job; the first message counts.
            if message.id_given && !given.insert(message.id) {
                continue;
            }
            // A broker queue is ordered by arrival only, so a message with a priority of its own is claimed from the table. Events and
            // replies are relayed whole.
            let goes = room > 0
                && message.due == Due::Now
                && message.priority == 0
                && !message.is_blocked_at_first()
                && message.queue != EVENT_QUEUE
                && message.queue != REPLY_QUEUE
                && !taken(message.id);
            if !goes {
                continue;
            }
            if *targets.entry(&message.queue).or_insert_with_key(|queue| self.open(queue)) {
                held.insert(message.id);
                room -= 1;
            }
        }
        held
    }

    /// Publishes the hidden rows and reports the outcomes in the background. They are on their way when this returns.
    pub(super) fn publish(self: &Arc<Self>, pointers: Vec<HiddenRow>) -> oneshot::Receiver<RouteCounts> {
        let (tell, told) = oneshot::channel();
        let count = pointers.len();
        self.unconfirmed.fetch_add(count, Ordering::Relaxed);
        let (pending, messages) = self.pack(pointers).into_iter().unzip();
        let published = self.broker.publish_now(messages);
        let delivery_publisher = self.clone();
        self.runtime.spawn(async move {
            // The receiver may be dropped: most callers don't wait.
            let _ = tell.send(delivery_publisher.published(pending, published.await).await);
            if delivery_publisher.unconfirmed.fetch_sub(count, Ordering::Relaxed) == count {
                delivery_publisher.idle.notify_waiters();
            }
        });
        told
    }

    /// Packs these rows into deliveries, in their order, each of one queue.
    fn pack(&self, pointers: Vec<HiddenRow>) -> Vec<(PendingDelivery, Outgoing)> {
        let mut queues: Vec<(String, Vec<RowRef>)> = Vec::new();
        for HiddenRow { id, queue, kind } in pointers {
            // A row that was just inserted has never been claimed.
            let row = RowRef { fence: Fence::new(id, 0), kind };
            // Nearly always all rows are of one queue.
            match queues.iter_mut().find(|(name, _)| *name == queue) {
                Some((_, rows)) => rows.push(row),
                None => queues.push((queue, vec![row])),
            }
        }
        let mut packed = Vec::new();
        for (queue, rows) in queues {
            let consumers = self.targets().get(&queue).map_or(1, |target| target.state().consumers);
            for rows in shares(&rows, consumers as usize) {
                let ids = rows.iter().map(|row| row.fence.id).collect();
                let message = wire::delivery(self.broker.names(), &queue, rows);
                packed.extend(message.map(|message| (PendingDelivery { queue: queue.clone(), ids }, message)));
            }
        }
        packed
    }

    /// Handles the outcomes of deliveries.
    async fn published(&self, pending: Vec<PendingDelivery>, outcomes: Vec<Published>) -> RouteCounts {
        let (mut went, mut back) = (RouteCounts::default(), Vec::new());
        for (PendingDelivery { queue, ids }, outcome) in pending.into_iter().zip(outcomes) {
            match outcome {
                Published::Acked => {
                    self.accepted(&queue);
                    went.broker += ids.len();
                    continue;
                }
                Published::Nacked => self.refused(&queue, true),
                Published::Returned => self.refused(&queue, false),
                Published::Unknown | Published::NotSent => {}
            }
            back.extend(ids);
        }
        went.table = back.len();
        if !back.is_empty() {
            // Best effort: the rows become visible anyway when their head start ends.
            match self.jobs.unhide(&back).await {
                Ok(queues) => self.wakeup.notify(queues.into_iter().map(Hint::Rescan)),
                Err(error) => {
                    tracing::debug!(%error, "rows that were not delivered wait in the table until their head start ends");
                }
            }
        }
        went
    }

    /// Waits until no delivery is in flight.
    pub(super) async fn settled(&self) {
        loop {
            let idle = self.idle.notified();
            tokio::pin!(idle);
            idle.as_mut().enable();
            if self.unconfirmed.load(Ordering::Relaxed) == 0 {
                return;
            }
            idle.await;
        }
    }

    fn targets(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<TargetQueue>>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether messages may be sent to a queue. A queue that was not used yet is checked first; meanwhile its messages are claimed from the
    /// table.
    fn open(self: &Arc<Self>, queue: &str) -> bool {
        let mut targets = self.targets();
        if let Some(target) = targets.get(queue) {
            let mut state = target.state();
            state.used = Instant::now();
            return state.open;
        }
        let state = TargetState { open: false, full: false, consumers: 0, used: Instant::now(), refuses: None };
        let target = Arc::new(TargetQueue { state: Mutex::new(state), look: Notify::new() });
        targets.insert(queue.to_owned(), target.clone());
        self.runtime.spawn(watch(Arc::downgrade(self), target, queue.to_owned()));
        false
    }

    /// Checks a queue now, so that messages sent next may already go through the broker.
    pub(super) async fn prepare(self: &Arc<Self>, queue: &str) {
        self.open(queue);
        let target = self.targets().get(queue).cloned();
        if let Some(target) = target {
            self.look(&target, queue).await;
        }
    }

    fn accepted(&self, queue: &str) {
        if let Some(target) = self.targets().get(queue) {
            target.state().refuses = None;
        }
    }

    fn refused(&self, queue: &str, full: bool) {
        if let Some(target) = self.targets().get(queue) {
            let mut state = target.state();
            if full {
                // A quorum queue notifies a channel when it becomes full, and when it no longer is. If its leader is lost in between, the
                // second notice never comes, and everything published on the channel is refused for ever. A new channel starts afresh.
                if state.refuses.get_or_insert_with(Instant::now).elapsed() >= STUCK_AFTER {
                    state.refuses = None;
                    tracing::warn!(
                        queue,
                        "the broker refuses everything for a queue that has room; publishing on a new channel"
                    );
                    self.broker.renew_channel();
                }
            }
            state.open = false;
            state.full = full;
            target.look.notify_one();
        }
    }

    /// Checks a queue once, and returns the time until the next check; `None` means that the queue is no longer used.
    async fn look(&self, target: &TargetQueue, queue: &str) -> Option<Duration> {
        let (unused, was_full) = {
            let state = target.state();
            (state.used.elapsed() > FORGET_AFTER, state.full)
        };
        if unused {
            self.targets().remove(queue);
            return None;
        }
        let found = if self.broker.is_up() {
            self.broker.depth(&self.broker.names().deliveries(queue)).await
        } else {
            Ok(None)
        };
        let found = found.unwrap_or_else(|error| {
            tracing::debug!(%error, queue, "a queue of the broker could not be checked; its jobs run from the table");
            None
        });
        let mut state = target.state();
        // After it was full, the queue has to be half empty. Opening it at each free place would cost a refusal for each message.
        let limit = if was_full { self.depth / 2 } else { self.depth };
        let room = found.is_some_and(|depth| depth.messages < limit.max(1));
        state.consumers = found.map_or(0, |depth| depth.consumers);
        state.open = room && state.consumers > 0;
        state.full = found.is_some() && !room;
        if state.full {
            state.refuses = None;
        }
        Some(if state.full { CHECK_INTERVAL_FULL } else { CHECK_INTERVAL })
    }
}

impl TargetQueue {
    fn state(&self) -> std::sync::MutexGuard<'_, TargetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cuts the rows of a flush into deliveries of equal size: as few as possible, but one for each consumer of the queue while the rows last.
fn shares<T>(rows: &[T], consumers: usize) -> impl Iterator<Item = &[T]> {
    let count = rows.len();
    let deliveries = count.div_ceil(ROWS).max(consumers.min(count));
    (0..deliveries).map(move |n| &rows[n * count / deliveries..(n + 1) * count / deliveries])
}

/// Keeps the state of a queue up to date while it is used.
async fn watch(delivery_publisher: Weak<DeliveryPublisher>, target: Arc<TargetQueue>, queue: String) {
    loop {
        let pause = {
            let Some(delivery_publisher) = delivery_publisher.upgrade() else { return };
            match delivery_publisher.look(&target, &queue).await {
                Some(pause) => pause,
                None => return,
            }
        };
        // A refusal shortens the pause to `CHECK_INTERVAL_FULL` and no further: the queue needs time to empty.
        let start = Instant::now();
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = target.look.notified() => tokio::time::sleep_until(start + CHECK_INTERVAL_FULL.min(pause)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ROWS, shares};

    fn sizes(rows: usize, consumers: usize) -> Vec<usize> {
        shares(&vec![(); rows], consumers).map(<[()]>::len).collect()
    }

    #[test]
    fn a_small_flush_is_shared_among_all_and_a_large_one_is_cut_evenly() {
        for (rows, consumers, deliveries) in [
            (1, 0, vec![1]),
            (1, 5, vec![1]),
            (8, 1, vec![8]),
            (8, 2, vec![4, 4]),
            (9, 2, vec![4, 5]),
            (8, 20, vec![1; 8]),
            (11, 10, vec![1, 1, 1, 1, 1, 1, 1, 1, 1, 2]),
            (32, 1, vec![32]),
            (33, 1, vec![16, 17]),
            (100, 1, vec![25; 4]),
            (100, 10, vec![10; 10]),
            (0, 3, vec![]),
        ] {
            assert_eq!(sizes(rows, consumers), deliveries, "{rows} rows for {consumers}");
        }
        for rows in 1..1000 {
            let sizes = sizes(rows, 7);
            assert!(
                sizes.iter().all(|size| (1..=ROWS).contains(size)) && sizes.iter().sum::<usize>() == rows,
                "{sizes:?}"
            );
        }
    }
}
