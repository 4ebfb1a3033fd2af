//! Takes back what nothing holds any more, though no trigger has released it: see `store::reconcile`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::backoff::jitter;
use crate::error::Result;
use crate::executor::maintenance::periodic::{Next, Periodic};
use crate::message::WakeUp;
use crate::store::engine::Reconciled;
use crate::store::{Hint, Maintenance};

/// The first look after the start. Not at once, when there are jobs to claim.
const FIRST: Duration = Duration::from_secs(2);
/// How often it looks.
pub(crate) const INTERVAL: Duration = Duration::from_secs(60);
/// How many times in a row it does not look while polls see neither a permit nor a blocked job.
const SKIPS: u32 = 10;
/// How long a permit has to be without a holder. A node notices within a few seconds that a job of its own is gone, and then its handler holds
/// the permit until it ends (`cancellations.rs`).
const GRACE: Duration = Duration::from_secs(15);
/// The pause between two pages.
const PAUSE: Duration = Duration::from_secs(1);
/// How many permits and keys are named in the log.
const NAMED: usize = 10;

/// Looks for permits without a holder. Every node does; they need no leader, because the database decides about each permit once.
pub(crate) struct Reconciler {
    store: Arc<dyn Maintenance>,
    wakeup: Arc<WakeUp>,
    last: Reconciled,
    /// Whether a poll has seen permits or blocked jobs.
    wanted: Arc<AtomicBool>,
    /// How often it did not look, because there were none.
    skipped: u32,
}

impl Reconciler {
    pub(crate) fn new(store: Arc<dyn Maintenance>, wakeup: Arc<WakeUp>, wanted: Arc<AtomicBool>) -> Self {
        Self { store, wakeup, last: Reconciled::default(), wanted, skipped: 0 }
    }

    /// Returns how long the first run waits.
    pub(crate) fn first() -> Duration {
        jitter(FIRST)
    }
}

impl Periodic for Reconciler {
    const FAILED: &'static str = "permits without a holder could not be looked for";

    async fn run(&mut self) -> Result<Next> {
        let wanted = self.wanted.swap(false, Ordering::Relaxed);
        if !wanted && self.skipped < SKIPS && self.last.orphans.is_empty() && !self.last.has_more() {
            self.skipped += 1;
            return Ok(Next::After(jitter(INTERVAL)));
        }
        self.skipped = 0;
        // After a failure it begins again: what was found may be long ago.
        let last = std::mem::take(&mut self.last);
        self.last = self.store.reconcile(&last).await?;
        let Reconciled { orphans, reclaimed, unblocked, .. } = &self.last;
        for permit in reclaimed.iter().take(NAMED) {
            tracing::warn!(
                key = permit.key, job = %permit.job,
                "took back a permit: the job that held it no longer exists, and no trigger released it (a truncated or restored table?)"
            );
        }
        if !unblocked.is_empty() {
            let keys = &unblocked[..unblocked.len().min(NAMED)];
            tracing::warn!(?keys, all = unblocked.len(), "unblocked keys that jobs were blocked on for no reason");
        }
        if !reclaimed.is_empty() || !unblocked.is_empty() {
            self.wakeup.notify([Hint::Admission]);
        }
        Ok(Next::After(match () {
            () if !orphans.is_empty() => GRACE,
            () if self.last.has_more() => PAUSE,
            () => jitter(INTERVAL),
        }))
    }
}
