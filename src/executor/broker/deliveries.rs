//! Deliveries of rows: claims them by id, and runs them like all others.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::refuse::{Aside, Shelf};
use super::{BATCH, Incarnation};
use crate::backoff::Reconnect;
use crate::broker::{Acks, Broker, Incoming, Subscription, Tag, wire};
use crate::error::warn_of;
use crate::executor::dispatcher::start;
use crate::executor::queue::Queue;
use crate::executor::stats::add;
use crate::job::{Fence, Job, JobId};
use crate::message::pipe::HOLD;
use crate::store::{Hint, Store};

/// Most deliveries in this process that wait for a slot.
const PREFETCH: usize = 1000;

/// A delivery that waits for a slot.
struct Waiting {
    fence: Fence,
    kind: String,
    tag: Tag,
    /// When its row is free for all.
    until: Instant,
}

/// Takes deliveries of one queue until the node stops claiming.
///
/// A delivery is acked as soon as its row is claimed: from then on the node's lease answers for it, and a broker that delivered
/// it again could not make anybody run it. One that finds no slot before the row's hold ends is acked too, and the row claimed
/// from the table by whoever has a slot. So no handler, however long, holds a delivery, and the broker's limit on that
/// (`consumer_timeout`) is never met.
pub(super) async fn run<S: Store>(node: Arc<Incarnation<S>>, broker: Arc<Broker>, queue: Arc<Queue>) {
    // As many wait as can run: the next are at hand when a slot becomes free, and no node hoards.
    let prefetch = u16::try_from((queue.concurrency() * 2).min(PREFETCH)).unwrap_or(u16::MAX);
    let subscription = broker.subscribe(broker.names().deliveries(&queue.name), prefetch);
    let stop = node.stop_claiming.clone();
    let acks = subscription.acks();
    let kinds = node.registry.keys().cloned().collect();
    let shelf = Shelf::new(broker.clone(), acks.clone());
    let waiting = VecDeque::new();
    let mut deliveries = Deliveries { node, broker, queue, kinds, subscription, acks, shelf, waiting };
    tokio::select! {
        () = stop.cancelled() => {}
        () = deliveries.take() => {}
    }
}

struct Deliveries<S: Store> {
    node: Arc<Incarnation<S>>,
    broker: Arc<Broker>,
    queue: Arc<Queue>,
    kinds: Vec<String>,
    subscription: Subscription,
    acks: Acks,
    shelf: Shelf,
    waiting: VecDeque<Waiting>,
}

impl<S: Store> Deliveries<S> {
    async fn take(&mut self) {
        let mut delays = Reconnect::new(Duration::from_secs(2));
        let mut buffer = Vec::new();
        loop {
            if self.waiting.is_empty() && self.subscription.recv_many(&mut buffer, BATCH).await == 0 {
                return;
            }
            self.read(&mut buffer);
            // Whatever else has arrived makes the same claim larger.
            while self.waiting.len() < BATCH
                && self.subscription.recv_many(&mut buffer, BATCH).now_or_never().is_some_and(|n| n > 0)
            {
                self.read(&mut buffer);
            }
            let Some(until) = self.waiting.front().map(|first| first.until) else { continue };
            if self.waiting.len() > 1 {
                self.queue.gather(self.waiting.len()).await;
            }
            tokio::select! {
                slots = self.queue.take(self.waiting.len().min(BATCH)) => {
                    let Some(slots) = slots else { return };
                    if self.claim(slots).await {
                        delays.reset();
                    } else {
                        tokio::time::sleep(delays.next_delay()).await;
                    }
                }
                () = tokio::time::sleep_until(until) => self.leave(),
            }
        }
    }

    fn read(&mut self, buffer: &mut Vec<Incoming>) {
        let mut aside = Vec::new();
        for message in buffer.drain(..) {
            match wire::read_delivery(&message) {
                Ok((fence, kind)) => {
                    let until = Instant::from_std(message.received) + HOLD;
                    self.waiting.push_back(Waiting { fence, kind, tag: message.tag, until });
                }
                Err(why) => aside.push(Aside::dead(self.broker.names(), message, &why)),
            }
        }
        if !aside.is_empty() {
            add(&self.node.counters.messages_refused, aside.len());
            let shelf = self.shelf.clone();
            tokio::spawn(async move { shelf.put(aside).await });
        }
    }

    /// Leaves deliveries to the table whose rows are free for all now.
    fn leave(&mut self) {
        let now = Instant::now();
        let over = self.waiting.iter().take_while(|waiting| waiting.until <= now).count();
        self.acks.ack(self.waiting.drain(..over).map(|waiting| waiting.tag));
        add(&self.node.counters.left_to_table, over);
        self.queue.wake();
    }

    /// Claims as many as there are slots, and starts them. `false`: the store did not answer.
    async fn claim(&mut self, mut slots: OwnedSemaphorePermit) -> bool {
        let count = slots.num_permits().min(self.waiting.len());
        let mut fences = Vec::with_capacity(count);
        let mut tags = Vec::with_capacity(count);
        let mut kind_slots: HashMap<JobId, OwnedSemaphorePermit> = HashMap::new();
        let mut others = Vec::new();
        for Waiting { fence, kind, tag, .. } in self.waiting.drain(..count) {
            tags.push(tag);
            match self.node.registry.get(&kind).map(|kind| kind.slots.as_ref()) {
                Some(None) => fences.push(fence),
                Some(Some(limited)) if let Ok(slot) = limited.clone().try_acquire_owned() => {
                    kind_slots.insert(fence.id, slot);
                    fences.push(fence);
                }
                // Another node may run it, or this one when the kind has a free slot again.
                _ => others.push(fence.id),
            }
        }
        let claimed = self.claim_rows(&fences).await;
        // Whatever became of it: the row is owned, or waits in the table, or is gone.
        self.acks.ack(tags);
        self.pass_on(others);
        let Some(jobs) = claimed else { return false };
        add(&self.node.counters.claimed, jobs.len());
        add(&self.node.counters.delivered, jobs.len());
        add(&self.node.counters.stale, fences.len() - jobs.len());
        for job in jobs {
            // One for each that was asked for.
            let Some(slot) = slots.split(1) else { break };
            let kind_slot = kind_slots.remove(&job.id);
            start(&self.node, job, slot, kind_slot, None);
        }
        true
    }

    async fn claim_rows(&self, fences: &[Fence]) -> Option<Vec<Job>> {
        if fences.is_empty() {
            return Some(Vec::new());
        }
        let claiming = self.node.in_flight.claiming.clone().read_owned().await;
        let (node, claim) = (self.node.id, self.node.next_claim());
        match self.node.store.claim_delivered(node, claim, fences, Some(&self.kinds)).await {
            Ok(jobs) => {
                self.node.in_flight.add(jobs.iter());
                drop(claiming);
                Some(jobs)
            }
            Err(error) => {
                warn_of!(error, queue = %self.queue.name, "delivered jobs could not be claimed; they wait in the table");
                self.node.claim_failed(&error);
                None
            }
        }
    }

    /// Ends the hold of rows that this node can't take now.
    fn pass_on(&self, ids: Vec<JobId>) {
        if ids.is_empty() {
            return;
        }
        add(&self.node.counters.left_to_table, ids.len());
        let (store, wakeup) = (self.node.store.clone(), self.node.messages.wakeup.clone());
        tokio::spawn(async move {
            match store.unhold(&ids).await {
                Ok(queues) => wakeup.tell(queues.into_iter().map(Hint::Rescan)),
                Err(error) => tracing::debug!(%error, "jobs for other nodes wait in the table until their hold ends"),
            }
        });
    }
}
