//! The pipe to the executors: deliveries of committed rows, through the broker.
//!
//! ```text
//!  flush:   holds()    tells what may go through the pipe; the row is kept back from claims of the table for HOLD
//!  commit:  publish()  deliveries of up to 32 rows, confirms pipelined
//!             acked     an executor claims the rows by id
//!             refused   (full, no queue, unknown) the hold is ended: executors claim the row from the table
//!             lost      nobody does anything: the hold ends by itself
//! ```
//!
//! A delivery is a head start and never more: whatever becomes of it, the rows are there, and nobody has to repair anything.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::{WakeUp, WentTo};
use crate::broker::wire::{self, Pointed, ROWS};
use crate::broker::{Broker, Outgoing, Published};
use crate::job::{Due, EVENT_QUEUE, Fence, JobId, JobMessage, REPLY_QUEUE};
use crate::store::{Hint, JobStore};

/// How long a row is kept back for its delivery. Long enough for a pipe that is full to its limit to be worked off by handlers
/// that take a few milliseconds; short enough to be no outage when a delivery gets lost.
pub(crate) const HOLD: Duration = Duration::from_secs(5);
/// Rows whose deliveries may wait for their confirm in this process. What goes beyond stays in the table.
const UNCONFIRMED: usize = 5_000;
/// Time between two looks at a queue of the broker that is open, or has nobody who consumes it.
const LOOK: Duration = Duration::from_secs(1);
/// The same after the broker refused something, because the queue was full.
const LOOK_FULL: Duration = Duration::from_millis(100);
/// How long a queue may refuse everything though each look finds room in it.
const STUCK: Duration = Duration::from_secs(5);
/// A queue that nobody sent to for this long is not looked at any more.
const FORGET: Duration = Duration::from_secs(30);

/// A row on its way through the pipe.
pub(super) struct Pointer {
    pub(super) id: JobId,
    pub(super) queue: String,
    pub(super) kind: String,
}

/// The rows of a delivery.
struct Parcel {
    queue: String,
    ids: Vec<JobId>,
}

/// Deliveries of this process.
pub(crate) struct Pipe {
    broker: Arc<Broker>,
    jobs: Arc<dyn JobStore>,
    pub(super) wakeup: Arc<WakeUp>,
    /// Most that may wait in a queue of the broker.
    depth: u32,
    lanes: Mutex<HashMap<String, Arc<Lane>>>,
    unconfirmed: AtomicUsize,
    /// Where its tasks run: a commit may be told from a thread that knows no runtime.
    runtime: Handle,
    /// Deliveries are published, or their holds ended.
    idle: Notify,
}

/// What is known about one queue of the broker.
#[derive(Debug)]
struct Lane {
    state: Mutex<State>,
    /// It was refused, or used again: look now.
    look: Notify,
}

#[derive(Debug)]
struct State {
    /// Somebody consumes it, and it has room.
    open: bool,
    full: bool,
    /// How many consumed it at the last look.
    consumers: u32,
    used: Instant,
    /// Since when it refuses everything, unless a look found it full.
    refuses: Option<Instant>,
}

impl Pipe {
    pub(super) fn new(broker: Arc<Broker>, jobs: Arc<dyn JobStore>, wakeup: Arc<WakeUp>, depth: u32) -> Arc<Self> {
        Arc::new(Self {
            broker,
            jobs,
            wakeup,
            depth,
            lanes: Mutex::default(),
            unconfirmed: AtomicUsize::new(0),
            runtime: Handle::current(),
            idle: Notify::new(),
        })
    }

    pub(super) fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }

    /// The messages (by position) that go through the pipe. Those that are `taken` (in ascending order) go another way.
    pub(super) fn holds(self: &Arc<Self>, messages: &[JobMessage], taken: &[usize]) -> Vec<usize> {
        let mut held = Vec::new();
        if !self.broker.is_up() {
            return held;
        }
        let mut room = UNCONFIRMED.saturating_sub(self.unconfirmed.load(Ordering::Relaxed));
        let mut lanes: HashMap<&str, bool> = HashMap::new();
        for (position, message) in messages.iter().enumerate() {
            // A broker's queue knows no order but that of arrival, so what has a priority of its own is claimed from the
            // table. Events and replies are relayed whole.
            let goes = room > 0
                && message.due == Due::Now
                && message.priority == 0
                && !message.is_blocked_at_first()
                && message.queue != EVENT_QUEUE
                && message.queue != REPLY_QUEUE
                && taken.binary_search(&position).is_err();
            if !goes {
                continue;
            }
            if *lanes.entry(&message.queue).or_insert_with_key(|queue| self.open(queue)) {
                held.push(position);
                room -= 1;
            }
        }
        held
    }

    /// Publishes what was held, and tells in the background what became of it. It is on its way when this returns.
    pub(super) fn publish(self: &Arc<Self>, pointers: Vec<Pointer>) -> oneshot::Receiver<WentTo> {
        let (tell, told) = oneshot::channel();
        let count = pointers.len();
        self.unconfirmed.fetch_add(count, Ordering::Relaxed);
        let (parcels, messages) = self.pack(pointers).into_iter().unzip();
        let published = self.broker.publish_now(messages);
        let pipe = self.clone();
        self.runtime.spawn(async move {
            // Nobody listens, unless asked to wait for it.
            let _ = tell.send(pipe.published(parcels, published.await).await);
            if pipe.unconfirmed.fetch_sub(count, Ordering::Relaxed) == count {
                pipe.idle.notify_waiters();
            }
        });
        told
    }

    /// Deliveries of these rows, in their order, each of one queue.
    fn pack(&self, pointers: Vec<Pointer>) -> Vec<(Parcel, Outgoing)> {
        let mut queues: Vec<(String, Vec<Pointed>)> = Vec::new();
        for Pointer { id, queue, kind } in pointers {
            // A row that was just inserted has never been claimed.
            let row = Pointed { fence: Fence::new(id, 0), kind };
            // Nearly always they are of one queue.
            match queues.iter_mut().find(|(name, _)| *name == queue) {
                Some((_, rows)) => rows.push(row),
                None => queues.push((queue, vec![row])),
            }
        }
        let mut packed = Vec::new();
        for (queue, rows) in queues {
            let consumers = self.lanes().get(&queue).map_or(1, |lane| lane.state().consumers);
            for rows in shares(&rows, consumers as usize) {
                let ids = rows.iter().map(|row| row.fence.id).collect();
                let message = wire::delivery(self.broker.names(), &queue, rows);
                packed.extend(message.map(|message| (Parcel { queue: queue.clone(), ids }, message)));
            }
        }
        packed
    }

    /// What became of them.
    async fn published(&self, parcels: Vec<Parcel>, outcomes: Vec<Published>) -> WentTo {
        let (mut went, mut back) = (WentTo::default(), Vec::new());
        for (Parcel { queue, ids }, outcome) in parcels.into_iter().zip(outcomes) {
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
            // Best effort: the holds end by themselves.
            match self.jobs.unhold(&back).await {
                Ok(queues) => self.wakeup.tell(queues.into_iter().map(Hint::Rescan)),
                Err(error) => {
                    tracing::debug!(%error, "rows that were not delivered wait in the table until their hold ends");
                }
            }
        }
        went
    }

    /// Waits until nothing is under way.
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

    fn lanes(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Lane>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether something may be sent to a queue. A queue that was not used yet is looked at first, and its messages go by the
    /// table meanwhile.
    fn open(self: &Arc<Self>, queue: &str) -> bool {
        let mut lanes = self.lanes();
        if let Some(lane) = lanes.get(queue) {
            let mut state = lane.state();
            state.used = Instant::now();
            return state.open;
        }
        let state = State { open: false, full: false, consumers: 0, used: Instant::now(), refuses: None };
        let lane = Arc::new(Lane { state: Mutex::new(state), look: Notify::new() });
        lanes.insert(queue.to_owned(), lane.clone());
        self.runtime.spawn(watch(Arc::downgrade(self), lane, queue.to_owned()));
        false
    }

    /// Looks at a queue now, so that what is sent to it next may already go through.
    pub(super) async fn prepare(self: &Arc<Self>, queue: &str) {
        self.open(queue);
        let lane = self.lanes().get(queue).cloned();
        if let Some(lane) = lane {
            self.look(&lane, queue).await;
        }
    }

    fn accepted(&self, queue: &str) {
        if let Some(lane) = self.lanes().get(queue) {
            lane.state().refuses = None;
        }
    }

    fn refused(&self, queue: &str, full: bool) {
        if let Some(lane) = self.lanes().get(queue) {
            let mut state = lane.state();
            if full {
                // A quorum queue tells a channel when it is full, and when it no longer is. If its leader is lost in between, the channel is not
                // told, and everything it publishes is refused for ever. A new channel asks anew.
                if state.refuses.get_or_insert_with(Instant::now).elapsed() >= STUCK {
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
            lane.look.notify_one();
        }
    }

    /// Looks at a queue once, and returns when to look again; `None`: nobody uses it any more.
    async fn look(&self, lane: &Lane, queue: &str) -> Option<Duration> {
        let (unused, was_full) = {
            let state = lane.state();
            (state.used.elapsed() > FORGET, state.full)
        };
        if unused {
            self.lanes().remove(queue);
            return None;
        }
        let found = if self.broker.is_up() {
            self.broker.depth(&self.broker.names().deliveries(queue)).await
        } else {
            Ok(None)
        };
        let found = found.unwrap_or_else(|error| {
            tracing::debug!(%error, queue, "a queue of the broker could not be looked at; its jobs go by the table");
            None
        });
        let mut state = lane.state();
        // Once it was full, it has to be half empty: opening it at each free place would be a refusal for each message.
        let limit = if was_full { self.depth / 2 } else { self.depth };
        let room = found.is_some_and(|depth| depth.messages < limit.max(1));
        state.consumers = found.map_or(0, |depth| depth.consumers);
        state.open = room && state.consumers > 0;
        state.full = found.is_some() && !room;
        if state.full {
            state.refuses = None;
        }
        Some(if state.full { LOOK_FULL } else { LOOK })
    }
}

impl Lane {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cuts the rows of a flush into deliveries: as few as can be, but one for each who consumes the queue, as far as it goes, and all of one size.
fn shares<T>(rows: &[T], consumers: usize) -> impl Iterator<Item = &[T]> {
    let count = rows.len();
    let deliveries = count.div_ceil(ROWS).max(consumers.min(count));
    (0..deliveries).map(move |n| &rows[n * count / deliveries..(n + 1) * count / deliveries])
}

/// Keeps what is known about a queue up to date, as long as it is used.
async fn watch(pipe: Weak<Pipe>, lane: Arc<Lane>, queue: String) {
    loop {
        let pause = {
            let Some(pipe) = pipe.upgrade() else { return };
            match pipe.look(&lane, &queue).await {
                Some(pause) => pause,
                None => return,
            }
        };
        // A refusal shortens the pause to that after a refusal, and no further: the queue needs time to empty.
        let start = Instant::now();
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = lane.look.notified() => tokio::time::sleep_until(start + LOOK_FULL.min(pause)).await,
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
