//! One life of an executor under one node id: from registration until it stops, or loses its lease.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedRwLockReadGuard, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::completer::{Completer, Reports};
use super::dispatcher::{Dispatcher, start};
use super::in_flight::InFlight;
use super::node::Heart;
use super::queue::Queue;
use super::registry::Registry;
use super::stats::{Counters, add};
use super::{Settings, listener, monitor, timers};
use crate::error::Result;
use crate::job::{Job, NodeId};
use crate::message::MessageServices;
use crate::message::local::{LocalExecutor, Offer};
use crate::store::{Hint, JobStore, Store};

/// How long cancelled handlers have to let go. Async ones do at their next await; one that blocks its thread can't.
const LET_GO: Duration = Duration::from_secs(5);

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
    pub(super) workers: TaskTracker,
    pub(super) poll_interval: Duration,
    /// No more claims.
    pub(super) stop_claiming: CancellationToken,
    /// Handlers must stop.
    pub(super) cancel: CancellationToken,
    timer_hint: Arc<Notify>,
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
    /// Registers a node and runs it until `stop` is cancelled or its lease is lost. `ready` is called once it is registered.
    pub(super) async fn run(
        settings: &Settings<S>,
        registered: (NodeId, Instant),
        stop: &CancellationToken,
        started: impl FnOnce(Arc<InFlight>),
    ) -> Result<End> {
        let (id, since) = registered;
        let store = settings.messages.jobs.clone();
        let heart = Heart::start(store.clone(), id, settings.node.lease, since)?;
        let (reports, inbox) = Completer::channel();
        let node = Arc::new_cyclic(|this| Self {
            id,
            store: store.clone(),
            messages: settings.messages.clone(),
            registry: settings.registry.clone(),
            queues: settings
                .queues
                .iter()
                .map(|(name, concurrency)| (name.clone(), Arc::new(Queue::new(name.clone(), *concurrency))))
                .collect(),
            in_flight: Arc::default(),
            reports,
            counters: settings.counters.clone(),
            workers: TaskTracker::new(),
            poll_interval: settings.poll_interval,
            stop_claiming: stop.child_token(),
            cancel: CancellationToken::new(),
            timer_hint: Arc::default(),
            this: this.clone(),
        });
        started(node.in_flight.clone());

        let helpers = TaskTracker::new();
        let quit = CancellationToken::new();
        let completer = Completer {
            store: store.clone(),
            node: id,
            in_flight: node.in_flight.clone(),
            counters: node.counters.clone(),
            wakeup: node.messages.wakeup.clone(),
            lost: heart.lost().clone(),
        };
        let completing = tokio::spawn(completer.run(inbox));
        let dispatchers = TaskTracker::new();
        for queue in node.queues.values() {
            dispatchers.spawn(Dispatcher::new(node.clone(), queue.clone()).run());
        }
        dispatchers.close();
        let local: Arc<dyn LocalExecutor> = node.clone();
        node.messages.wakeup.register(Arc::downgrade(&local));
        let wakeup = &node.messages.wakeup;
        helpers.spawn(listener::run(store.clone(), Arc::downgrade(&local), quit.clone()));
        helpers.spawn(timers::run(store.clone(), wakeup.clone(), node.timer_hint.clone(), node.poll_interval, quit.clone()));
        helpers.spawn(monitor::run(store.clone(), wakeup.clone(), settings.node.lease, quit.clone()));
        let in_flight = node.in_flight.clone();
        let straggler = settings.call_timeout;
        helpers.spawn({
            let (store, quit) = (store.clone(), quit.clone());
            async move { in_flight.reconcile(store, id, straggler, quit).await }
        });
        helpers.close();
        drop(local);

        let end = tokio::select! {
            () = heart.lost().cancelled() => End::LeaseLost,
            () = stop.cancelled() => End::Stopped,
        };
        node.stop_claiming.cancel();
        let end = node.drain(end, &dispatchers, heart.lost(), settings.grace()).await;
        quit.cancel();
        let unfinished = node.workers.len();
        let in_flight = node.in_flight.clone();
        // The completer ends when the last sender of outcomes is gone: this one, and those of the workers.
        drop(node);
        let completed = if unfinished == 0 || end == End::LeaseLost {
            tokio::time::timeout(settings.call_timeout * 2, completing).await.is_ok()
        } else {
            completing.abort();
            false
        };
        let _ = tokio::time::timeout(LET_GO, helpers.wait()).await;
        if end == End::Stopped {
            retire(&store, id, &in_flight, completed).await;
        }
        heart.stop().await;
        Ok(end)
    }

    /// Lets running handlers finish within the grace period, then tells them to stop.
    async fn drain(&self, end: End, dispatchers: &TaskTracker, lost: &CancellationToken, grace: Duration) -> End {
        let mut end = end;
        let _ = tokio::time::timeout(LET_GO, dispatchers.wait()).await;
        self.workers.close();
        if end == End::Stopped {
            tokio::select! {
                () = self.workers.wait() => {}
                () = tokio::time::sleep(grace) => {}
                () = lost.cancelled() => end = End::LeaseLost,
            }
        }
        self.cancel.cancel();
        if tokio::time::timeout(LET_GO, self.workers.wait()).await.is_err() {
            tracing::warn!(handlers = self.workers.len(), "handlers that block their thread did not stop; their outcomes will be refused");
        }
        end
    }
}

/// Leaves in good order: gives back whatever is still owned, then ends the lease.
async fn retire(store: &Arc<dyn JobStore>, id: NodeId, in_flight: &InFlight, clean: bool) {
    let leave = async {
        if !clean || in_flight.len() > 0 {
            // Handlers that would not stop, and outcomes that could not be recorded.
            let released = store.release_unknown(id, &[]).await?;
            tracing::warn!(released, "gave back jobs that were not finished");
        }
        store.retire_node(id).await
    };
    if let Err(error) = leave.await {
        tracing::warn!(%error, node = %id, "the node could not leave in good order; others release its jobs when its lease ends");
    }
}

impl<S: Store> LocalExecutor for Incarnation<S> {
    fn hint(&self, hint: &Hint) {
        match hint {
            Hint::Queue(name) | Hint::Rescan(name) => {
                if let Some(queue) = self.queues.get(name) {
                    queue.wake();
                }
            }
            Hint::Timer => self.timer_hint.notify_one(),
            Hint::Any => {
                self.queues.values().for_each(|queue| queue.wake());
                self.timer_hint.notify_one();
            }
        }
    }

    fn offer(&self) -> Option<Box<dyn Offer>> {
        if self.stop_claiming.is_cancelled() || self.cancel.is_cancelled() {
            return None;
        }
        let claiming = self.in_flight.claiming.clone().try_read_owned().ok()?;
        Some(Box::new(Direct { node: self.this.upgrade()?, _claiming: claiming, settled: false }))
    }
}

/// Slots offered to one commit.
struct Direct<S: Store> {
    node: Arc<Incarnation<S>>,
    /// Nobody may look for unknown rows between the commit and the delivery.
    _claiming: OwnedRwLockReadGuard<()>,
    settled: bool,
}

impl<S: Store> Offer for Direct<S> {
    fn node(&self) -> NodeId {
        self.node.id
    }

    fn reserve(&self, queue: &str, kind: &str) -> Option<OwnedSemaphorePermit> {
        // A kind with a limit of its own goes the long way.
        self.node.registry.get(kind).filter(|kind| kind.slots.is_none())?;
        self.node.queues.get(queue)?.try_take_ahead()
    }

    fn deliver(mut self: Box<Self>, jobs: Vec<(Job, OwnedSemaphorePermit)>) {
        self.settled = true;
        self.node.in_flight.add(jobs.iter().map(|(job, _)| job.fence()));
        add(&self.node.counters.handed_over, jobs.len());
        for (job, slot) in jobs {
            start(&self.node, job, slot, None);
        }
    }

    fn withdraw(mut self: Box<Self>) {
        self.settled = true;
    }
}

impl<S: Store> Drop for Direct<S> {
    fn drop(&mut self) {
        if !self.settled {
            self.node.in_flight.suspect();
        }
    }
}
