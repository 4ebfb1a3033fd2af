//! Deliveries of rows: claims them by id, and runs them like all others.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::hands::{Hands, Over, Waiting};
use super::refuse::{Aside, Shelf};
use super::{BATCH, Incarnation};
use crate::backoff::Reconnect;
use crate::broker::{Acks, Broker, Incoming, Subscription, wire};
use crate::error::warn_of;
use crate::executor::dispatcher::start;
use crate::executor::queue::Queue;
use crate::executor::stats::add;
use crate::job::{Fence, Job, JobId};
use crate::store::{Hint, Store};

/// Most deliveries in hand. Each may name some 32 rows: so many are what the next claims need, and what is more would wait here while others have
/// slots.
const PREFETCH: usize = 64;

/// Takes deliveries of one queue until the node stops claiming.
///
/// A delivery is acked as soon as its rows are claimed: from then on the node's lease answers for them, and a broker that delivered
/// it again could not make anybody run them. Rows that find no slot are left to the table in time ([`Hands`]), to be claimed by whoever has
/// one, and then it is acked too. So no handler, however long, holds a delivery, and the broker's limit on that (`consumer_timeout`) is
/// never met.
pub(super) async fn run<S: Store>(node: Arc<Incarnation<S>>, broker: Arc<Broker>, queue: Arc<Queue>) {
    // As many wait as can run: the next are at hand when a slot becomes free, and no node hoards.
    let prefetch = u16::try_from((queue.concurrency() * 2).min(PREFETCH)).unwrap_or(u16::MAX);
    let subscription = broker.subscribe(broker.names().deliveries(&queue.name), prefetch);
    let stop = node.stop_claiming.clone();
    let acks = subscription.acks();
    let kinds = node.registry.keys().cloned().collect();
    let shelf = Shelf::new(broker.clone(), acks.clone());
    let (hands, buffer) = (Hands::new(), Vec::new());
    let mut deliveries = Deliveries { node, broker, queue, kinds, subscription, acks, shelf, hands, buffer };
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
    hands: Hands,
    /// Messages that were not read yet.
    buffer: Vec<Incoming>,
}

/// What ends a wait for slots.
enum Wait {
    Slots(OwnedSemaphorePermit),
    /// No row waits any more.
    Over,
    /// The node stops, or the broker is gone.
    Ended,
}

impl<S: Store> Deliveries<S> {
    async fn take(&mut self) {
        let mut delays = Reconnect::new(Duration::from_secs(2));
        loop {
            if self.hands.is_idle() && self.subscription.recv_many(&mut self.buffer, BATCH).await == 0 {
                return;
            }
            self.read();
            // Whatever else has arrived makes the same claim larger.
            while self.hands.len() < BATCH
                && self.subscription.recv_many(&mut self.buffer, BATCH).now_or_never().is_some_and(|n| n > 0)
            {
                self.read();
            }
            if self.hands.len() > 1 {
                self.queue.gather(self.hands.len()).await;
            }
            match self.wait().await {
                Wait::Slots(slots) => {
                    if self.claim(slots).await {
                        delays.reset();
                        // Rows may follow each other without an end.
                        self.leave();
                    } else {
                        tokio::time::sleep(delays.next_delay()).await;
                    }
                }
                Wait::Over => {}
                Wait::Ended => return,
            }
        }
    }

    /// Waits for slots; what comes meanwhile has its own time to wait.
    async fn wait(&mut self) -> Wait {
        let queue = self.queue.clone();
        let one = queue.take(1);
        tokio::pin!(one);
        loop {
            let Some(until) = self.hands.until() else { return Wait::Over };
            tokio::select! {
                biased;
                slot = &mut one, if !self.hands.is_empty() => {
                    let Some(mut slots) = slot else { return Wait::Ended };
                    if let Some(more) = queue.try_take(self.hands.len().min(BATCH).saturating_sub(1)) {
                        slots.merge(more);
                    }
                    return Wait::Slots(slots);
                }
                () = tokio::time::sleep_until(until) => {
                    self.leave();
                    if self.hands.is_empty() {
                        return Wait::Over;
                    }
                    // The others keep their place in the line for slots.
                }
                came = self.subscription.recv_many(&mut self.buffer, BATCH) => {
                    if came == 0 {
                        return Wait::Ended;
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
                Ok(rows) => self.hands.put(rows, Instant::from_std(message.received), message.tag),
                Err(why) => aside.push(Aside::dead(self.broker.names(), message, &why)),
            }
        }
        if !aside.is_empty() {
            add(&self.node.counters.messages_refused, aside.len());
            let shelf = self.shelf.clone();
            tokio::spawn(async move { shelf.put(aside).await });
        }
    }

    /// Leaves rows to the table that wait here in vain.
    fn leave(&mut self) {
        let Over { held, free, tags } = self.hands.over(Instant::now(), self.queue.free());
        self.acks.ack(tags);
        if free > 0 {
            add(&self.node.counters.left_to_table, free);
            self.queue.wake();
        }
        self.pass_on(held);
    }

    /// Claims as many as there are slots, and starts them. `false`: the store did not answer.
    async fn claim(&mut self, mut slots: OwnedSemaphorePermit) -> bool {
        let mut fences = Vec::with_capacity(slots.num_permits());
        let mut kind_slots: HashMap<JobId, OwnedSemaphorePermit> = HashMap::new();
        let mut others = Vec::new();
        let mut tags = Vec::new();
        for Waiting { row, last, .. } in self.hands.take(slots.num_permits(), Instant::now()) {
            tags.extend(last);
            let fence = row.fence;
            match self.node.registry.get(&row.kind).map(|kind| kind.slots.as_ref()) {
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
        if jobs.len() < fences.len() && self.node.limited.load(Ordering::Relaxed) {
            // What a limit covers that claims count, only they can start.
            self.queue.wake();
        }
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
        let (store, wakeup) = (self.node.store.clone(), self.node.messages.shared.wakeup.clone());
        tokio::spawn(async move {
            match store.unhold(&ids).await {
                Ok(queues) => wakeup.tell(queues.into_iter().map(Hint::Rescan)),
                Err(error) => tracing::debug!(%error, "jobs for other nodes wait in the table until their hold ends"),
            }
        });
    }
}
