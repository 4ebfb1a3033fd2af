//! The signals by which a node's tasks wake one another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use crate::store::{MaintenanceDue, NodeHeartbeat};

/// The heartbeats of other nodes, read with something else.
#[derive(Debug)]
pub(crate) struct HeartbeatsSeen {
    /// When the statement was sent, and when its answer came.
    pub(crate) asked: Instant,
    pub(crate) answered: Instant,
    pub(crate) heartbeats: Vec<NodeHeartbeat>,
}

/// A signal for each task that does what falls due.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signals {
    pub(crate) timers: Arc<Notify>,
    pub(crate) expiry: Arc<Notify>,
    pub(crate) admission: Arc<Notify>,
    pub(crate) schedules: Arc<Notify>,
    /// Notified when an external worker is late.
    pub(crate) external: Arc<Notify>,
    pub(crate) suspects: Arc<Notify>,
    /// Notified when the database's clock was set.
    pub(crate) clock: Arc<Notify>,
    /// Whether there may be something to reconcile. Not a notification: it is not urgent.
    pub(crate) reconciliation: Arc<AtomicBool>,
    /// Notified of the heartbeats of other nodes.
    pub(crate) monitor: Arc<Notify>,
    /// Notified when hints may have been missed: the next poll is due.
    pub(crate) poll: Arc<Notify>,
    pub(crate) seen: Arc<Mutex<Option<HeartbeatsSeen>>>,
    /// Whether hints of other nodes arrive.
    pub(crate) hears: Arc<AtomicBool>,
}

impl Signals {
    /// Wakes the tasks that have something to do.
    pub(crate) fn notify(&self, due: &MaintenanceDue) {
        self.reconciliation.fetch_or(due.reconciliation, Ordering::Relaxed);
        for (due, signal) in [
            (due.timers, &self.timers),
            (due.expiry, &self.expiry),
            (due.admission, &self.admission),
            (due.schedules, &self.schedules),
            (due.external, &self.external),
            (due.suspects, &self.suspects),
        ] {
            if due {
                signal.notify_one();
            }
        }
    }

    /// Wakes all tasks.
    pub(crate) fn notify_all(&self) {
        self.notify(&MaintenanceDue::ANY);
        self.clock.notify_one();
        self.monitor.notify_one();
    }

    /// Passes the heartbeats of other nodes to the lock monitor.
    pub(crate) fn seen(&self, seen: HeartbeatsSeen) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
        self.monitor.notify_one();
    }

    /// Takes the heartbeats that were passed last.
    pub(crate) fn take_seen(&self) -> Option<HeartbeatsSeen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
