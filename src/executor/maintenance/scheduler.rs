//! Sends the jobs of schedules when they are due.

use std::sync::Arc;
use std::time::Duration;

use crate::backoff::jitter;
use crate::error::Result;
use crate::executor::maintenance::periodic::{Next, Periodic};
use crate::message::WakeUp;
use crate::store::Schedules;
use crate::store::schedules::fire_due;

/// The most jobs sent in one transaction.
const BATCH: usize = 1000;
/// The time until the next check when a due schedule is being fired by another node, or this one can't read it. It doubles each time, up to
/// the poll interval.
const ASIDE: Duration = Duration::from_millis(200);

/// Fires schedules. Every node does. They need no leader, because the database lets only one of them fire an occurrence.
pub(crate) struct Scheduler {
    store: Arc<dyn Schedules>,
    wakeup: Arc<WakeUp>,
    aside: Duration,
    poll: Duration,
}

impl Scheduler {
    pub(crate) fn new(store: Arc<dyn Schedules>, wakeup: Arc<WakeUp>, poll: Duration) -> Self {
        Self { store, wakeup, aside: ASIDE, poll }
    }
}

impl Periodic for Scheduler {
    const FAILED: &'static str = "due schedules could not be fired";

    async fn run(&mut self) -> Result<Next> {
        let next = self.store.next_schedule().await?;
        if next != Some(Duration::ZERO) {
            self.aside = ASIDE;
            return Ok(Next::Due(next));
        }
        let fired = fire_due(&*self.store, BATCH).await?;
        self.wakeup.notify(fired.hints);
        if !fired.overlapped.is_empty() {
            tracing::info!(schedules = ?fired.overlapped, "nothing was sent: the job of the previous occurrence has not ended");
        }
        if !fired.unfinished.is_empty() {
            tracing::warn!(schedules = ?fired.unfinished, jobs = fired.jobs, "many occurrences were missed; sending their jobs in batches");
        }
        if fired.schedules > 0 {
            self.aside = ASIDE;
            return Ok(Next::Now);
        }
        self.aside = (self.aside * 2).min(self.poll);
        Ok(Next::After(jitter(self.aside)))
    }
}
