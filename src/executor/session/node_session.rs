//! The state of one node session.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::{Error, ErrorKind};
use crate::executor::handler::external_queue::outbound;
use crate::executor::handler::registry::Registry;
use crate::executor::node::alone;
use crate::executor::node::breaker::Breakers;
use crate::executor::node::cancellations::Cancellations;
use crate::executor::node::gathering::Gathering;
use crate::executor::node::in_flight::InFlight;
use crate::executor::node::limits::CountedLimits;
use crate::executor::node::queue::Queue;
use crate::executor::node::stats::Counters;
use crate::executor::outcome::completer::Completions;
use crate::executor::outcome::failure_policy::FailurePolicy;
use crate::executor::session::settings::Settings;
use crate::job::NodeId;
use crate::message::{MessageServices, WakeUp};
use crate::store::{JobStore, Store};

/// What all tasks of one node session share.
pub(crate) struct NodeSession<S: Store> {
    pub(crate) id: NodeId,
    pub(crate) store: Arc<dyn JobStore>,
    pub(crate) messages: MessageServices<S>,
    pub(crate) registry: Arc<Registry<S>>,
    /// Kinds that this node can't run at the moment.
    pub(crate) breakers: Arc<Breakers>,
    pub(crate) queues: HashMap<String, Arc<Queue>>,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) completions: Completions,
    pub(crate) counters: Arc<Counters>,
    /// Jobs that are being gathered into batches for their handler.
    pub(crate) gathering: Gathering,
    pub(crate) workers: TaskTracker,
    pub(crate) poll_interval: Duration,
    pub(crate) failure_policy: Arc<FailurePolicy>,
    /// Cancelled when the node must claim no more.
    pub(crate) stop_claiming: CancellationToken,
    /// Cancelled when this node can't go on: the database does not know it, though its heartbeat may disagree, or one of its tasks
    /// panicked.
    pub(crate) refused: CancellationToken,
    /// Cancelled when all handlers must stop.
    pub(crate) cancel: CancellationToken,
    /// Cancels the handlers of single jobs.
    pub(crate) cancellations: Arc<Cancellations>,
    pub(crate) timer_hint: Arc<Notify>,
    pub(crate) expiry_hint: Arc<Notify>,
    pub(crate) schedule_hint: Arc<Notify>,
    pub(crate) suspects_hint: Arc<Notify>,
    /// Whether rules exist that limit or pause jobs. Then admission must check what arrives.
    pub(crate) limited: Arc<AtomicBool>,
    /// The limits that claims count.
    pub(crate) limits: Arc<CountedLimits>,
    /// Wakes the senders that put jobs of a queue on the broker.
    pub(crate) queue_wakeups: HashMap<String, Notify>,
    /// Kinds that may run next in the slot of another job of their group.
    pub(crate) chainable_kinds: Vec<String>,
    /// A reference to itself, for handoffs that may outlive the borrow.
    pub(crate) this: Weak<Self>,
}

impl<S: Store> NodeSession<S> {
    /// `chainable_kinds`: kinds that may run next in the slot of another job of their group.
    pub(crate) fn new(
        settings: &Settings<S>,
        id: NodeId,
        completions: Completions,
        chainable_kinds: Vec<String>,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let queue =
            |(name, concurrency): &(String, usize)| (name.clone(), Arc::new(Queue::new(name.clone(), *concurrency)));
        let cancel = CancellationToken::new();
        let in_flight: Arc<InFlight> = Arc::default();
        alone::register(in_flight.busy());
        Arc::new_cyclic(|this| Self {
            id,
            store: settings.messages.shared.jobs.clone(),
            messages: settings.messages.clone(),
            chainable_kinds,
            registry: settings.registry.clone(),
            breakers: settings.breakers.clone(),
            queues: settings.queues.iter().map(queue).collect(),
            in_flight,
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
            suspects_hint: Arc::default(),
            limited: Arc::default(),
            limits: Arc::default(),
            queue_wakeups: outbound(&settings.external).map(|queue| (queue, Notify::new())).collect(),
            this: this.clone(),
        })
    }

    pub(crate) fn wakeup(&self) -> &Arc<WakeUp> {
        &self.messages.shared.wakeup
    }

    /// Returns a strong reference to itself, while one exists.
    pub(crate) fn me(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    /// Handles a failed claim.
    ///
    /// If its answer was lost, its statement may have taken effect, so the node checks what it owns. That check reads the whole table, so
    /// it is skipped when the database refused the claim. If the error says that this node may not claim, the node ends: it could never own
    /// anything again.
    pub(crate) fn claim_failed(&self, error: &Error) {
        if error.kind() != ErrorKind::LeaseLost {
            if !error.kept_nothing() {
                self.in_flight.suspect();
            }
            return;
        }
        if !self.stop_claiming.is_cancelled() {
            tracing::error!(node = %self.id, %error, "this node may not claim; stopping all its work to register again");
        }
        self.refused.cancel();
    }

    /// Returns whether there is a broker that delivers nothing at the moment.
    pub(crate) fn cut_off(&self) -> bool {
        self.messages.broker().is_some_and(|broker| !broker.is_up())
    }

    /// Waits until there may be something to send to the broker, for `patience` at most.
    pub(crate) async fn woken_for(&self, queue: &str, patience: Duration) {
        let wakeup = async {
            match self.queue_wakeups.get(queue) {
                Some(wakeup) => wakeup.notified().await,
                None => std::future::pending().await,
            }
        };
        let _ = tokio::time::timeout(patience, wakeup).await;
    }
}
