//! Asks at an interval whether there is maintenance to do, and wakes the tasks that do it.
//!
//! Hints and due dates wake each task in time. Work without a hint (a timer that plain SQL has set, a message that got lost) is found by
//! polling. One query polls for all tasks here: five tasks polling separately would be most of the load of an idle node on the database.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backoff::jitter;
use crate::error::Result;
use crate::executor::maintenance::clock::ClockWatch;
use crate::executor::maintenance::periodic::{Next, Periodic};
use crate::executor::node::signals::Signals;
use crate::store::{Maintenance, MaintenanceDue};

/// Polls for all tasks. Every node does.
pub(crate) struct LookAhead {
    store: Arc<dyn Maintenance>,
    signals: Signals,
    poll: Duration,
    watch: ClockWatch,
}

impl LookAhead {
    pub(crate) fn new(store: Arc<dyn Maintenance>, signals: Signals, poll: Duration) -> Self {
        Self { store, signals, poll, watch: ClockWatch::default() }
    }
}

impl Periodic for LookAhead {
    const FAILED: &'static str = "could not ask what there is to do";

    async fn run(&mut self) -> Result<Next> {
        // What falls due before the next poll must be known from this one.
        let asked = Instant::now();
        let mut due = self.store.maintenance_due(2 * self.poll).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "{}; each task looks by itself", Self::FAILED);
            MaintenanceDue::ANY
        });
        let answered = Instant::now();
        if let Some(step) = due.now.and_then(|now| self.watch.look(asked, answered, now)) {
            tracing::warn!(
                step = format_args!("{:+.1}s", step.as_secs_f64()),
                "the database's clock was set: what is due comes earlier or later by that much; who lives is not decided by it"
            );
            self.signals.clock.notify_one();
            // A task that sleeps until something is due computed that time before the step.
            due = MaintenanceDue { now: due.now, ..MaintenanceDue::ANY };
        }
        self.signals.notify(due);
        Ok(Next::After(jitter(self.poll)))
    }
}
