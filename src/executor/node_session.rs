//! One session of an executor under one node id: from registration until it stops or loses its lease.

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
use super::completer::{Completer, Completions};
use super::dispatcher::Dispatcher;
use super::drain::{Drain, LET_GO};
use super::failure_policy::FailurePolicy;
use super::group_run::GroupClaimer;
use super::heartbeat::Heartbeat;
use super::in_flight::InFlight;
use super::limits::CountedLimits;
use super::queue::Queue;
use super::registry::Registry;
use super::stats::Counters;
use super::{Settings, broker, group_run};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{ClaimCounter, ClaimNumber, NodeId};
use crate::message::{MessageServices, WakeUp};
use crate::store::{Hint, Hints, JobStore, Leases, Store};

/// How long a node with nothing in flight waits for the embedded database to record that it leaves.
const IDLE: Duration = Duration::from_secs(1);

/// What all tasks of one node session share.
pub(super) struct NodeSession<S: Store> {
    pub(super) id: NodeId,
    pub(super) store: Arc<dyn JobStore>,
    pub(super) messages: MessageServices<S>,
    pub(super) registry: Arc<Registry<S>>,
    pub(super) queues: HashMap<String, Arc<Queue>>,
    pub(super) in_flight: Arc<InFlight>,
    pub(super) completions: Completions,
    pub(super) counters: Arc<Counters>,
    /// Jobs that are being gathered into batches for their handler.
    pub(super) gathering: Gathering,
    pub(super) workers: TaskTracker,
    pub(super) poll_interval: Duration,
    pub(super) failure_policy: Arc<FailurePolicy>,
    /// Cancelled when the node must claim no more.
    pub(super) stop_claiming: CancellationToken,
    /// Cancelled when this node can't go on: the database does not know it, though its heartbeat may disagree, or one of its tasks
    /// panicked.
    refused: CancellationToken,
    /// Cancelled when all handlers must stop.
    pub(super) cancel: CancellationToken,
    /// Cancels the handlers of single jobs.
    pub(super) cancellations: Arc<Cancellations>,
    timer_hint: Arc<Notify>,
    expiry_hint: Arc<Notify>,
    schedule_hint: Arc<Notify>,
    /// Whether rules exist that limit or pause jobs. Then admission must check what arrives.
    pub(super) limited: Arc<AtomicBool>,
    /// The limits that claims count.
    pub(super) limits: Arc<CountedLimits>,
    /// Wakes the senders that put jobs of a queue on the broker.
    queue_wakeups: HashMap<String, Notify>,
    /// Makes the numbers of this node's claims.
    claims: ClaimCounter,
    /// Kinds that may run next in the slot of another job of their group.
    pub(super) chainable_kinds: Vec<String>,
    /// A reference to itself, for handoffs that may outlive the borrow.
    this: Weak<Self>,
}

/// Why a node session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionEnd {
    Stopped,
    LeaseLost,
}

impl<S: Store> NodeSession<S> {
    /// Runs a registered node until `stop` is cancelled or its lease is lost. `started` gets the node's jobs in flight.
    ///
    /// # Errors
    /// [`Replaced`](ErrorKind::Replaced): the database is gone, so no other session can go on either.
    pub(super) async fn run(
        settings: &Settings<S>,
        (id, since): (NodeId, Instant),
        stop: &CancellationToken,
        started: impl FnOnce(Arc<InFlight>),
    ) -> Result<SessionEnd> {
        let store = settings.messages.shared.jobs.clone();
        let (completions, inbox) = Completer::channel();
        let node = Self::new(settings, id, completions, group_run::kinds(&settings.registry), stop);
        // Asked at the start and not at the first heartbeat: by then it may be another server.
        let asked = tokio::time::timeout(settings.node.lease / 10, store.identity()).await;
        let server = asked.ok().and_then(Result::ok).flatten();
        let heartbeat =
            Heartbeat::start(store.clone(), id, settings.node.lease, since, server, node.in_flight.clone())?;
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
            lost: heartbeat.lost().clone(),
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
            () = heartbeat.lost().cancelled() => SessionEnd::LeaseLost,
            () = node.refused.cancelled() => {
                // Tasks that wait for the heartbeat's verdict stop waiting.
                heartbeat.lost().cancel();
                SessionEnd::LeaseLost
            }
            () = stop.cancelled() => SessionEnd::Stopped,
        };
        node.stop_claiming.cancel();
        let drain = Drain {
            dispatchers: &dispatchers,
            workers: &node.workers,
            cancellations: &node.cancellations,
            lost: heartbeat.lost(),
        };
        let end = drain.run(end, settings.grace()).await;
        quit.cancel();
        let in_flight = node.in_flight.clone();
        // Outcomes already handed in are recorded even if a handler that blocks its thread never ends.
        finish.cancel();
        let abort = completing.abort_handle();
        let completed = tokio::time::timeout(settings.call_timeout * 2, completing).await.is_ok();
        abort.abort();
        drop(node);
        let _ = tokio::time::timeout(LET_GO, helpers.wait()).await;
        // A node with nothing in flight has no known job to give back. On the embedded store no claim can be under way either, because it
        // has one writer. So such a node does not wait long for another program's transaction. On a server, a claim whose answer was lost
        // may have taken jobs. They are released without costing an attempt, and that may take a while.
        let idle = completed && in_flight.len() == 0 && store.is_single_writer();
        let patience = if idle { IDLE } else { Duration::MAX };
        if end == SessionEnd::Stopped
            && tokio::time::timeout(patience, retire(&*store, &*store, id, &in_flight, completed)).await.is_err()
        {
            tracing::warn!(node = %id, "left without waiting for the database to note it; others will when the lease of this idle node ends");
        }
        let hopeless = heartbeat.hopeless();
        let _ = tokio::time::timeout(patience, heartbeat.stop()).await;
        hopeless.map_or(Ok(end), Err)
    }

    /// `chainable_kinds`: kinds that may run next in the slot of another job of their group.
    pub(super) fn new(
        settings: &Settings<S>,
        id: NodeId,
        completions: Completions,
        chainable_kinds: Vec<String>,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let queue =
            |(name, concurrency): &(String, usize)| (name.clone(), Arc::new(Queue::new(name.clone(), *concurrency)));
        let cancel = CancellationToken::new();
        Arc::new_cyclic(|this| Self {
            id,
            store: settings.messages.shared.jobs.clone(),
            messages: settings.messages.clone(),
            chainable_kinds,
            registry: settings.registry.clone(),
            queues: settings.queues.iter().map(queue).collect(),
            in_flight: Arc::default(),
            completions,
            counters: settings.counters.clone(),
            gathering: Gathering::default(),
            workers: TaskTracker::new(),
            poll_interval: settings.poll_interval,
            failure_policy: settings.failure_policy.clone(),
            stop_claiming: stop.child_token(),
            refused: CancellationToken::new(),
            cancellations: Arc::new(Cancellations::new(cancel.clone(), settings.cancel_grace)),
            cancel,
            timer_hint: Arc::default(),
            expiry_hint: Arc::default(),
            schedule_hint: Arc::default(),
            limited: Arc::default(),
            limits: Arc::default(),
            queue_wakeups: broker::outbound(&settings.external).map(|queue| (queue, Notify::new())).collect(),
            claims: ClaimCounter::default(),
            this: this.clone(),
        })
    }

    fn wakeup(&self) -> &Arc<WakeUp> {
        &self.messages.shared.wakeup
    }

    /// Returns a strong reference to itself, while one exists.
    pub(super) fn me(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    /// Returns the node as the completer uses it. The reference does not keep the node alive.
    fn next(self: &Arc<Self>) -> Weak<dyn GroupClaimer> {
        let next: Arc<dyn GroupClaimer> = self.clone();
        Arc::downgrade(&next)
    }

    /// Returns the number of a new claim. Each call that claims needs its own, whatever its result: a claim whose answer was lost may have
    /// taken rows under its number.
    pub(super) fn next_claim(&self) -> ClaimNumber {
        self.claims.next()
    }

    /// Handles a failed claim.
    ///
    /// If its answer was lost, its statement may have taken effect, so the node checks what it owns. That check reads the whole table, so
    /// it is skipped when the database refused the claim. If the error says that this node may not claim, the node ends: it could never own
    /// anything again.
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

    /// Returns whether there is a broker that delivers nothing at the moment.
    pub(super) fn cut_off(&self) -> bool {
        self.messages.broker().is_some_and(|broker| !broker.is_up())
    }

    /// Waits until there may be something to send to the broker, for `patience` at most.
    pub(super) async fn woken_for(&self, queue: &str, patience: Duration) {
        let wakeup = async {
            match self.queue_wakeups.get(queue) {
                Some(wakeup) => wakeup.notified().await,
                None => std::future::pending().await,
            }
        };
        let _ = tokio::time::timeout(patience, wakeup).await;
    }
}

/// Leaves in good order: ends the lease and releases all jobs the node still owns. Only the database knows which these are, because a claim
/// whose answer was lost may have been under way.
async fn retire(leases: &dyn Leases, hints: &dyn Hints, id: NodeId, in_flight: &InFlight, clean: bool) {
    let leave = async {
        let released = leases.retire_node(id).await?;
        // Handlers that did not stop, or outcomes that could not be recorded.
        let unfinished = !clean || in_flight.len() > 0;
        if released > 0 && unfinished {
            tracing::warn!(released, "gave back jobs that were not finished");
        }
        // What handlers of cancelled jobs held is free now, too.
        if (released > 0 || unfinished)
            && let Err(error) = hints.notify(&[Hint::Any]).await
        {
            tracing::debug!(%error, "executors were not woken; they will find the jobs when they poll");
        }
        Ok::<_, crate::Error>(())
    };
    if let Err(error) = leave.await {
        tracing::warn!(%error, node = %id, "the node could not leave in good order; others release its jobs when its lease ends");
    }
}
