//! The signals by which a node's tasks wake one another.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::store::MaintenanceDue;

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
}

impl Signals {
    /// Wakes the tasks that have something to do.
    pub(crate) fn notify(&self, due: MaintenanceDue) {
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
        self.notify(MaintenanceDue::ANY);
        self.clock.notify_one();
    }
}
