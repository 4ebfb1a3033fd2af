//! One life of an executor under one node id: from registration until it stops, or loses its lease.

mod direct;
mod helpers;

pub(super) use self::helpers::again;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::batch::Gathering;
use super::cancellations::Cancellations;
use super::completer::{Completer, Reports};
use super::dispatcher::Dispatcher;
use super::drain::{Drain, LET_GO};
use super::failing::Failing;
use super::hand_on::Next;
use super::in_flight::InFlight;
use super::limits::Limits;
use super::node::Heart;
use super::queue::Queue;
use super::registry::Registry;
use super::stats::Counters;
use super::{Settings, broker, hand_on};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{ClaimCounter, ClaimNumber, NodeId};
use crate::message::{MessageServices, WakeUp};
use crate::store::{Hint, JobStore, Store};

/// How long a node that has nothing in hand waits for the embedded database to note that it leaves.
const IDLE: Duration = Duration::from_secs(1);

/// What all tasks of one incarnation share.
pub(super) struct Incarnation<S: Store> {
    pub(super) id: NodeId,
    pub(super) store: Arc<dyn JobStore>,
    pub(super) messages: MessageServices<S>,
    pub(super) registry: Arc<Registry<S>>,
    pub(super) queues: HashMap<String, Arc<Queue>>,
    pub(super) in_flight: Arc<InFlight>,
    pub(super) reports: Reports,
    pub(super) counters: Arc<Counters>,
    /// Jobs that wait for others to be handled with.
    pub(super) gathering: Gathering,
    pub(super) workers: TaskTracker,
    pub(super) poll_interval: Duration,
    pub(super) failing: Arc<Failing>,
    /// No more claims.
    pub(super) stop_claiming: CancellationToken,
    /// This node can't go on: the database does not know it, though its heart may say otherwise, or a task of its own panicked.
    refused: CancellationToken,
    /// Handlers must stop.
    pub(super) cancel: CancellationToken,
    /// Which of them, and telling them.
    pub(super) cancellations: Arc<Cancellations>,
    timer_hint: Arc<Notify>,
    expiry_hint: Arc<Notify>,
    schedule_hint: Arc<Notify>,
    /// There are rules that limit or pause: what comes has to be looked at.
    pub(super) limited: Arc<AtomicBool>,
    /// Those that claims count by themselves.
    pub(super) limits: Arc<Limits>,
    /// What those wait for who send jobs of a queue to the broker.
    bells: HashMap<String, Notify>,
    /// The numbers of this node's claims.
    claims: ClaimCounter,
    /// Kinds that may follow in the place of another job of their group.
    pub(super) followers: Vec<String>,
    /// Itself, for offers that may outlive the borrow.
    this: Weak<Self>,
}

/// Why an incarnation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Stopped,
    LeaseLost,
}

impl<S: Store> Incarnation<S> {
    /// Runs a registered node until `stop` is cancelled or its lease is lost; an error of the kind [`Replaced`](ErrorKind::Replaced) means that
    /// no other one can go on. `started` gets what shows its jobs in hand.
    pub(super) async fn run(
        settings: &Settings<S>,
        (id, since): (NodeId, Instant),
        stop: &CancellationToken,
        started: impl FnOnce(Arc<InFlight>),
    ) -> Result<End> {
        let store = settings.messages.shared.jobs.clone();
        let (reports, inbox) = Completer::channel();
        let node = Self::new(settings, id, reports, hand_on::kinds(&settings.registry), stop);
        // From the start, and not from the first heartbeat on: it may be another one by then.
        let asked = tokio::time::timeout(settings.node.lease / 10, store.identity()).await;
        let server = asked.ok().and_then(Result::ok).flatten();
        let heart = Heart::start(store.clone(), id, settings.node.lease, since, server, node.in_flight.clone())?;
        started(node.in_flight.clone());

        let finish = CancellationToken::new();
        let completer = Completer {
            store: store.clone(),
            node: id,
            in_flight: node.in_flight.clone(),
            counters: node.counters.clone(),
            wakeup: node.messages.shared.wakeup.clone(),
            next: node.next(),
            finish: finish.clone(),
            lost: heart.lost().clone(),
        };
        let completing = tokio::spawn(node.watched("the completer", completer.run(inbox)));
        let dispatchers = TaskTracker::new();
        for queue in node.queues.values() {
            dispatchers.spawn(node.watched("a dispatcher", Dispatcher::new(node.clone(), queue.clone()).run()));
        }
        if let Some(broker) = node.messages.broker() {
            broker::start(&node, broker, &settings.external, &dispatchers);
        }
        dispatchers.close();
        let quit = CancellationToken::new();
        let helpers = node.start_helpers(settings, &quit);

        let end = tokio::select! {
            () = heart.lost().cancelled() => End::LeaseLost,
            () = node.refused.cancelled() => {
                // What waits for it, waits no longer.
                heart.lost().cancel();
                End::LeaseLost
            }
            () = stop.cancelled() => End::Stopped,
        };
        node.stop_claiming.cancel();
        let drain = Drain {
            dispatchers: &dispatchers,
            workers: &node.workers,
            cancellations: &node.cancellations,
            lost: heart.lost(),
        };
        let end = drain.run(end, settings.grace()).await;
        quit.cancel();
        let in_flight = node.in_flight.clone();
        // What was handed in is recorded even if a handler that blocks its thread never ends.
        finish.cancel();
        let abort = completing.abort_handle();
        let completed = tokio::time::timeout(settings.call_timeout * 2, completing).await.is_ok();
        abort.abort();
        drop(node);
        let _ = tokio::time::timeout(LET_GO, helpers.wait()).await;
        // With nothing in hand it has nothing to give back that is known of, and on the embedded store no claim can be under way: that
        // has one writer. So nobody waits long for somebody else's transaction there. On a server what a claim took whose answer got lost
        // is given back at no attempt, and that may take its time.
        let idle = completed && in_flight.len() == 0 && !store.writes_beside_transactions();
        let patience = if idle { IDLE } else { Duration::MAX };
        if end == End::Stopped
            && tokio::time::timeout(patience, retire(&store, id, &in_flight, completed)).await.is_err()
        {
            tracing::warn!(node = %id, "left without waiting for the database to note it; others will when the lease of this idle node ends");
        }
        let hopeless = heart.hopeless();
        let _ = tokio::time::timeout(patience, heart.stop()).await;
        hopeless.map_or(Ok(end), Err)
    }

    /// `followers`: kinds that may follow in the place of another job of their group.
    pub(super) fn new(
        settings: &Settings<S>,
        id: NodeId,
        reports: Reports,
        followers: Vec<String>,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let queue =
            |(name, concurrency): &(String, usize)| (name.clone(), Arc::new(Queue::new(name.clone(), *concurrency)));
        let cancel = CancellationToken::new();
        Arc::new_cyclic(|this| Self {
            id,
            store: settings.messages.shared.jobs.clone(),
            messages: settings.messages.clone(),
            followers,
            registry: settings.registry.clone(),
            queues: settings.queues.iter().map(queue).collect(),
            in_flight: Arc::default(),
            reports,
            counters: settings.counters.clone(),
            gathering: Gathering::default(),
            workers: TaskTracker::new(),
            poll_interval: settings.poll_interval,
            failing: settings.failing.clone(),
            stop_claiming: stop.child_token(),
            refused: CancellationToken::new(),
            cancellations: Arc::new(Cancellations::new(cancel.clone(), settings.cancel_grace)),
            cancel,
            timer_hint: Arc::default(),
            expiry_hint: Arc::default(),
            schedule_hint: Arc::default(),
            limited: Arc::default(),
            limits: Arc::default(),
            bells: broker::outbound(&settings.external).map(|queue| (queue, Notify::new())).collect(),
            claims: ClaimCounter::default(),
            this: this.clone(),
        })
    }

    fn wakeup(&self) -> &Arc<WakeUp> {
        &self.messages.shared.wakeup
    }

    /// Itself, as long as it is there.
    pub(super) fn me(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    /// For who records outcomes. It does not keep the node.
    fn next(self: &Arc<Self>) -> Weak<dyn Next> {
        let next: Arc<dyn Next> = self.clone();
        Arc::downgrade(&next)
    }

    /// For each call that claims, whatever comes of it: one whose answer got lost may have taken rows under its number.
    pub(super) fn next_claim(&self) -> ClaimNumber {
        self.claims.next()
    }

    /// A claim failed. Its statement may have taken effect, and only its answer got lost; unless the database has refused it: there is nothing
    /// to look for then, and a look reads the whole table. If it says that this node may not claim, the node ends, because it would own nothing
    /// ever again.
    pub(super) fn claim_failed(&self, error: &Error) {
        if error.kind() != ErrorKind::LeaseLost {
            if !error.kept_nothing() {
                self.in_flight.suspect();
            }
            return;
        }
        if !self.stop_claiming.is_cancelled() {
            tracing::error!(node = %self.id, %error, "this node may not claim; stopping all its work to register anew");
        }
        self.refused.cancel();
    }

    /// There is a broker, and it delivers nothing at the moment.
    pub(super) fn cut_off(&self) -> bool {
        self.messages.broker().is_some_and(|broker| !broker.is_up())
    }

    /// Waits until there may be something to send to the broker, at most for `patience`.
    pub(super) async fn rung(&self, queue: &str, patience: Duration) {
        let bell = async {
            match self.bells.get(queue) {
                Some(bell) => bell.notified().await,
                None => std::future::pending().await,
            }
        };
        let _ = tokio::time::timeout(patience, bell).await;
    }
}

/// Leaves in good order: ends the lease and gives back whatever is still owned. What that is, only the database knows: a claim
/// whose answer nobody waited for may have been under way.
async fn retire(store: &Arc<dyn JobStore>, id: NodeId, in_flight: &InFlight, clean: bool) {
    let leave = async {
        let released = store.retire_node(id).await?;
        // Handlers that would not stop, and outcomes that could not be recorded.
        let unfinished = !clean || in_flight.len() > 0;
        if released > 0 && unfinished {
            tracing::warn!(released, "gave back jobs that were not finished");
        }
        // What handlers of cancelled jobs held is free, too.
        if (released > 0 || unfinished)
            && let Err(error) = store.notify(&[Hint::Any]).await
        {
            tracing::debug!(%error, "executors were not woken; they will find the jobs when they poll");
        }
        Ok::<_, crate::Error>(())
    };
    if let Err(error) = leave.await {
        tracing::warn!(%error, node = %id, "the node could not leave in good order; others release its jobs when its lease ends");
    }
}
