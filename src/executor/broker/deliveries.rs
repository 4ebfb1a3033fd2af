//! Deliveries of rows: claims them by id and runs them like all other jobs.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::backoff::Reconnect;
use crate::broker::{Acks, Broker, Incoming, Subscription, wire};
use crate::error::warn_of;
use crate::executor::broker::delivery_buffer::{BufferedRow, DeliveryBuffer, TimedOutRows};
use crate::executor::broker::mode::BATCH;
use crate::executor::broker::rejection::{Rejection, RejectionSink};
use crate::executor::metrics::stats::add;
use crate::executor::node::Node;
use crate::executor::node::alone;
use crate::executor::node::queue::Queue;
use crate::job::{Fence, Job, JobId};
use crate::store::Hint;

/// The most deliveries in flight. Each may name up to 32 rows. That is enough for the next claims; more would wait here while other nodes
/// have free slots.
const PREFETCH: usize = 64;

/// Takes deliveries of one queue until the node stops claiming.
///
/// A delivery is acked as soon as its rows are claimed. From then on the node's lease covers them, and delivering it again could not make
/// any node run them. Rows that find no slot in time are left to the table ([`DeliveryBuffer`]), where any node with a free slot claims
/// them; then the delivery is acked too. So no handler, however long, holds a delivery, and the broker's limit on that (`consumer_timeout`)
/// is never reached.
pub(crate) async fn run(node: Arc<Node>, broker: Arc<Broker>, queue: Arc<Queue>) {
    // As many wait as can run. So the next ones are present when a slot becomes free, and no node hoards.
    let prefetch = u16::try_from((queue.concurrency() * 2).min(PREFETCH)).unwrap_or(u16::MAX);
    let subscription = broker.subscribe(broker.names().deliveries(&queue.name), prefetch);
    let stop = node.stop_claiming.clone();
    let acks = subscription.acks();
    let kinds = node.kinds.keys().cloned().collect();
    let rejections = RejectionSink::new(broker.clone(), acks.clone());
    let (buffered, buffer) = (DeliveryBuffer::new(), Vec::new());
    let mut deliveries = Deliveries { node, broker, queue, kinds, subscription, acks, rejections, buffered, buffer };
    tokio::select! {
        () = stop.cancelled() => {}
        () = deliveries.take() => {}
    }
    // Their rows are in the table, so nobody else needs them.
    deliveries.acks.ack(deliveries.buffered.all_given_back());
}

struct Deliveries {
    node: Arc<Node>,
    broker: Arc<Broker>,
    queue: Arc<Queue>,
    kinds: Vec<String>,
    subscription: Subscription,
    acks: Acks,
    rejections: RejectionSink,
    buffered: DeliveryBuffer,
    /// Messages that were not decoded yet.
    buffer: Vec<Incoming>,
}

/// The end of a wait for slots.
enum Wait {
    Slots(OwnedSemaphorePermit),
    /// No row waits any more.
    TimedOutRows,
    /// The node stops, or the broker is gone.
    Closed,
}

impl Deliveries {
    async fn take(&mut self) {
        let mut delays = Reconnect::new(Duration::from_secs(2));
        loop {
            if self.buffered.is_idle() && self.subscription.recv_many(&mut self.buffer, BATCH).await == 0 {
                return;
            }
            self.read();
            // Other messages that have arrived make the same claim larger.
            while self.buffered.len() < BATCH
                && self.subscription.recv_many(&mut self.buffer, BATCH).now_or_never().is_some_and(|n| n > 0)
            {
                self.read();
            }
            if self.buffered.len() > 1 {
                self.queue.gather(self.buffered.len()).await;
            }
            match self.wait().await {
                Wait::Slots(slots) => {
                    if self.claim(slots).await {
                        delays.reset();
                        // Rows may arrive without end, so those that waited too long must be left here too.
                        self.leave();
                    } else {
                        tokio::time::sleep(delays.next_delay()).await;
                    }
                }
                Wait::TimedOutRows => {}
                Wait::Closed => return,
            }
        }
    }

    /// Waits for slots. Rows that arrive meanwhile get their own time to wait.
    async fn wait(&mut self) -> Wait {
        let queue = self.queue.clone();
        let one = queue.take(1);
        tokio::pin!(one);
        loop {
            let Some(until) = self.buffered.until() else { return Wait::TimedOutRows };
            tokio::select! {
                biased;
                slot = &mut one, if !self.buffered.is_empty() => {
                    let Some(mut slots) = slot else { return Wait::Closed };
                    if let Some(more) = queue.try_take(self.buffered.len().min(BATCH).saturating_sub(1)) {
                        slots.merge(more);
                    }
                    return Wait::Slots(slots);
                }
                () = tokio::time::sleep_until(until) => {
                    self.leave();
                    if self.buffered.is_empty() {
                        return Wait::TimedOutRows;
                    }
                    // The remaining rows keep their place among the waiters for slots.
                }
                came = self.subscription.recv_many(&mut self.buffer, BATCH) => {
                    if came == 0 {
                        return Wait::Closed;
                    }
                    self.read();
                }
            }
        }
    }

    fn read(&mut self) {
        let mut aside = Vec::new();
        for message in self.buffer.drain(..) {
            match wire::read_delivery(&message) {
                Ok(rows) => self.buffered.put(rows, Instant::from_std(message.received), message.tag),
                Err(why) => aside.push(Rejection::dead(self.broker.names(), message, &why)),
            }
        }
        if !aside.is_empty() {
            self.node.counters.messages_refused.add(aside.iter().map(|aside| aside.reason));
            let rejections = self.rejections.clone();
            tokio::spawn(async move { rejections.put(aside).await });
        }
    }

    /// Leaves rows to the table that have waited here too long.
    fn leave(&mut self) {
        let TimedOutRows { hidden, free, tags } = self.buffered.over(Instant::now(), self.queue.free());
        self.acks.ack(tags);
        if free > 0 {
            add(&self.node.counters.left_to_table, free);
            self.queue.wake();
        }
        self.pass_on(hidden);
    }

    /// Claims as many rows as there are slots, and starts them. `false`: the store did not answer.
    async fn claim(&mut self, mut slots: OwnedSemaphorePermit) -> bool {
        let mut fences = Vec::with_capacity(slots.num_permits());
        let mut kind_slots: HashMap<JobId, OwnedSemaphorePermit> = HashMap::new();
        let mut others = Vec::new();
        let (mut tags, mut given_back) = (Vec::new(), Vec::new());
        for waiting in self.buffered.take(slots.num_permits(), Instant::now()) {
            match waiting.last {
                Some(tag) if waiting.cut => given_back.push((tag, waiting.until())),
                tag => tags.extend(tag),
            }
            let BufferedRow { row, .. } = waiting;
            let fence = row.fence;
            let able = self.node.kinds.get(&row.kind).filter(|kind| !kind.breaker.is_open() && alone::is_open());
            let free = able.and_then(|kind| match &kind.slots {
                None => Some(None),
                Some(limited) => limited.clone().try_acquire_owned().ok().map(Some),
            });
            let Some(slot) = free else {
                // Another node may run it, or this one once the kind has a free slot.
                others.push(fence.id);
                continue;
            };
            kind_slots.extend(slot.map(|slot| (fence.id, slot)));
            fences.push(fence);
        }
        let claimed = self.claim_rows(&fences).await;
        // Acked in any case: each row is owned now, waits in the table, or is gone.
        self.acks.ack(tags);
        for (tag, until) in given_back {
            self.buffered.give_back(tag, until, Instant::now());
        }
        self.pass_on(others);
        let Some(jobs) = claimed else { return false };
        add(&self.node.counters.claimed, jobs.len());
        add(&self.node.counters.delivered, jobs.len());
        if jobs.len() < fences.len() && self.node.limited.load(Ordering::Relaxed) {
            // Only the dispatcher's claims can start jobs under limits that claims count.
            self.queue.wake();
        }
        for job in jobs {
            // The claim returns no more jobs than were asked for, so there is a slot for each.
            let Some(slot) = slots.split(1) else { break };
            let kind_slot = kind_slots.remove(&job.id);
            self.node.start(job, slot, kind_slot, None);
        }
        true
    }

    async fn claim_rows(&self, fences: &[Fence]) -> Option<Vec<Job>> {
        if fences.is_empty() {
            return Some(Vec::new());
        }
        let Some(claim) = self.node.in_flight.begin_claim_beside().await else {
            self.pass_on(fences.iter().map(|fence| fence.id).collect());
            return Some(Vec::new());
        };
        match self.node.store.claim_delivered(self.node.id, claim.number(), fences, Some(&self.kinds)).await {
            Ok(jobs) => {
                self.node.in_flight.add(jobs.iter());
                drop(claim);
                add(&self.node.counters.stale, fences.len() - jobs.len());
                Some(jobs)
            }
            Err(error) => {
                warn_of!(error, queue = %self.queue.name, "delivered jobs could not be claimed; they wait in the table");
                self.node.claim_failed(&error);
                None
            }
        }
    }

    /// Ends the head start of rows that this node can't take now.
    fn pass_on(&self, ids: Vec<JobId>) {
        if ids.is_empty() {
            return;
        }
        add(&self.node.counters.left_to_table, ids.len());
        let (store, wakeup) = (self.node.store.clone(), self.node.wakeup.clone());
        tokio::spawn(async move {
            match store.unhide(&ids).await {
                Ok(queues) => wakeup.notify(queues.into_iter().map(Hint::Rescan)),
                Err(error) => {
                    tracing::debug!(%error, "jobs for other nodes wait in the table until their head start ends");
                }
            }
        });
    }
}
