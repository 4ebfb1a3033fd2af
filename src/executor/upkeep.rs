//! Asks at an interval whether there is anything to do beside running jobs, and tells those whose task it is.
//!
//! Hints and due dates wake each of them in time. What comes without a hint (a timer that plain SQL has set, a message that got lost) is
//! found by looking now and then, and that is done here for all of them with one question: five that look by themselves would be most
//! of what an idle node asks of the database.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::clock::Watch;
use super::jitter;
use crate::store::{JobStore, UpkeepDue};

/// How much longer those that are told wait before they look untold, in polls.
pub(super) const UNTOLD: u32 = 12;

/// How to tell them.
pub(super) struct Bells {
    pub(super) timers: Arc<Notify>,
    pub(super) expiry: Arc<Notify>,
    pub(super) gates: Arc<Notify>,
    pub(super) schedules: Arc<Notify>,
    pub(super) external: Arc<Notify>,
    /// The database's clock was set.
    pub(super) clock: Arc<Notify>,
}

impl Bells {
    fn ring(&self, due: UpkeepDue) {
        for (due, bell) in [
            (due.timers, &self.timers),
            (due.expiry, &self.expiry),
            (due.gates, &self.gates),
            (due.schedules, &self.schedules),
            (due.external, &self.external),
        ] {
            if due {
                bell.notify_one();
            }
        }
    }
}

/// Every node runs one.
pub(super) async fn run(store: Arc<dyn JobStore>, bells: Bells, poll: Duration, stop: CancellationToken) {
    let mut watch = Watch::default();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(jitter(poll)) => {}
        }
        // What falls due before the next question must be known from this one.
        let asked = Instant::now();
        let mut due = store.upkeep(2 * poll).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "could not ask what there is to do; each part looks by itself");
            UpkeepDue::ANY
        });
        if let Some(step) = due.now.and_then(|now| watch.look(asked, now)) {
            tracing::warn!(
                step = format_args!("{:+.1}s", step.as_secs_f64()),
                "the database's clock was set: what is due comes earlier or later by that much; who lives is not decided by it"
            );
            bells.clock.notify_one();
            // Whoever sleeps until something is due sleeps for as long as it was.
            due = UpkeepDue { now: due.now, ..UpkeepDue::ANY };
        }
        bells.ring(due);
    }
}
