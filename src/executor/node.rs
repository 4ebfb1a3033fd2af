//! What a node is and has while it runs: its queues and slots, the jobs in flight, the outcomes to be recorded, cancellations, counted limits.
//! It lasts from a registration to the end of its lease or of the executor. Nothing here starts a task, and nothing knows the store's type.

pub(crate) mod alone;
pub(crate) mod cancellations;
pub(crate) mod claim_order;
pub(crate) mod completion;
pub(crate) mod ended_handlers;
pub(crate) mod failing;
pub(crate) mod gathering;
pub(crate) mod group_run;
pub(crate) mod in_flight;
pub(crate) mod lease;
pub(crate) mod limits;
pub(crate) mod queue;
pub(crate) mod signals;
pub(crate) mod slots;
pub(crate) mod tasks;
pub(crate) mod unrecorded;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backoff::{FALLBACK_POLLS, jitter};
use crate::broker::Broker;
use crate::codec::Codecs;
use crate::error::{Error, ErrorKind};
use crate::executor::kinds::breaker::Breakers;
use crate::executor::kinds::failure_policy::FailurePolicy;
use crate::executor::kinds::kind::Kinds;
use crate::executor::metrics::releases::ReleaseReason;
use crate::executor::metrics::stats::Counters;
use crate::executor::node::cancellations::Cancellations;
use crate::executor::node::completion::{Completion, Completions};
use crate::executor::node::failing::FailingTasks;
use crate::executor::node::gathering::Gathering;
use crate::executor::node::group_run::GroupRun;
use crate::executor::node::in_flight::InFlight;
use crate::executor::node::limits::{CountedLimits, Running};
use crate::executor::node::queue::Queue;
use crate::executor::node::signals::Signals;
use crate::executor::node::slots::Slots;
use crate::job::{Fence, Job, Limits, NodeId};
use crate::message::WakeUp;
use crate::store::{JobStore, Schedules};

/// What runs the jobs that a node has claimed. The handlers behind it know the store's type, because their transactions have it; what claims
/// jobs, and what records their outcomes, does not.
pub(crate) trait Work: Send + Sync {
    /// Starts a job in these slots, on a task of its own.
    fn start(&self, node: &Arc<Node>, job: Job, slots: Arc<Slots>);

    /// Starts jobs of a group in the slots of the group run, one after the other, on one task.
    fn start_group_run(self: Arc<Self>, node: Arc<Node>, jobs: Vec<Job>, group_run: GroupRun);
}

/// What all tasks of a node share.
pub(crate) struct Node {
    pub(crate) id: NodeId,
    /// A reference to itself, for handoffs that may outlive the borrow.
    pub(crate) this: Weak<Self>,

    // Connections.
    pub(crate) store: Arc<dyn JobStore>,
    pub(crate) schedules: Arc<dyn Schedules>,
    pub(crate) broker: Option<Arc<Broker>>,
    pub(crate) wakeup: Arc<WakeUp>,
    pub(crate) codecs: Codecs,
    /// What is demanded of the jobs that are sent.
    pub(crate) job_limits: Limits,
    /// Whether it takes in jobs that external producers submit.
    pub(crate) intake: bool,
    pub(crate) poll_interval: Duration,

    // Handlers.
    pub(crate) kinds: Arc<Kinds>,
    /// Kinds that this node can't run at the moment.
    pub(crate) breakers: Arc<Breakers>,
    pub(crate) failure_policy: Arc<FailurePolicy>,
    pub(crate) work: Arc<dyn Work>,
    pub(crate) workers: TaskTracker,
    /// Jobs that are being gathered into batches for their handler.
    pub(crate) gathering: Gathering,

    // Capacity.
    pub(crate) queues: HashMap<String, Arc<Queue>>,
    /// Whether rules exist that limit or pause jobs. Then admission must check what arrives.
    pub(crate) limited: Arc<AtomicBool>,
    /// The limits that claims count.
    pub(crate) limits: Arc<CountedLimits>,
    /// Kinds that may run next in the slot of another job of their group.
    pub(crate) chainable_kinds: Vec<String>,

    // Present work and its outcomes.
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) completions: Completions,
    pub(crate) counters: Arc<Counters>,
    /// Its tasks that fail at the moment.
    pub(crate) failing: Arc<FailingTasks>,

    // Cancellation.
    /// Cancelled when the node must claim no more.
    pub(crate) stop_claiming: CancellationToken,
    /// Cancelled when this node can't go on: the database does not know it, though its heartbeat may disagree, or one of its tasks
    /// panicked.
    pub(crate) refused: CancellationToken,
    /// Cancelled when all handlers must stop.
    pub(crate) cancel: CancellationToken,
    /// Cancels the handlers of single jobs.
    pub(crate) cancellations: Arc<Cancellations>,

    // Signals.
    pub(crate) signals: Signals,
    /// Wakes the senders that put jobs of a queue on the broker.
    pub(crate) queue_wakeups: HashMap<String, Notify>,
}

impl Node {
    /// Starts a job that this node owns, in these slots. `running`: the limits that its claim counted.
    pub(crate) fn start(
        self: &Arc<Self>,
        job: Job,
        slot: OwnedSemaphorePermit,
        kind_slot: Option<OwnedSemaphorePermit>,
        running: Option<Running>,
    ) {
        self.work.start(self, job, Slots::new(slot, kind_slot, running));
    }

    /// Returns the outcome of a job that is given back, and counts it.
    pub(crate) fn give_back(&self, fence: Fence, reason: ReleaseReason) -> Completion {
        self.counters.releases.add_many(reason.as_str(), 1);
        Completion::released(fence)
    }

    /// Returns the outcome of a job whose handler was cut off because the node ends. If the lease is lost, it is counted when it is recorded after all, or
    /// when the registration that follows gives the job back.
    pub(crate) fn interrupted(&self, fence: Fence) -> Completion {
        if self.cancellations.is_lost() {
            return Completion::released(fence);
        }
        self.give_back(fence, ReleaseReason::Stopping)
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

    /// Wakes the task of a queue, of which a poll says that jobs may wait anywhere in it.
    pub(crate) fn look_into(&self, name: &str) {
        if let Some(queue) = self.queues.get(name) {
            queue.wake_by_poll();
        } else if let Some(wakeup) = self.queue_wakeups.get(name) {
            wakeup.notify_one();
        }
    }

    /// Returns whether there is a broker that delivers nothing at the moment.
    pub(crate) fn cut_off(&self) -> bool {
        self.broker.as_ref().is_some_and(|broker| !broker.is_up())
    }

    /// Waits until there may be something to send to the broker: until a hint or a poll says so, or for many polls.
    pub(crate) async fn woken_for(&self, queue: &str) {
        let patience = jitter(self.poll_interval * FALLBACK_POLLS);
        let wakeup = async {
            match self.queue_wakeups.get(queue) {
                Some(wakeup) => wakeup.notified().await,
                None => std::future::pending().await,
            }
        };
        let _ = tokio::time::timeout(patience, wakeup).await;
    }
}
