//! Dead-letters jobs whose time to live is over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::executor::maintenance::periodic::{Next, Periodic};
use crate::message::WakeUp;
use crate::store::{Hint, Maintenance};

/// The most jobs removed in one transaction, in each state.
const BATCH: usize = 500;

/// How long batches that follow one another are counted together.
const TOGETHER: Duration = Duration::from_secs(5);

/// Expires jobs. Every node does.
pub(crate) struct Expiry {
    store: Arc<dyn Maintenance>,
    wakeup: Arc<WakeUp>,
    untold: Untold,
}

/// Jobs that have become dead letters and that the log does not tell of yet.
#[derive(Default)]
struct Untold {
    jobs: u64,
    since: Option<Instant>,
}

impl Untold {
    fn add(&mut self, jobs: u64) {
        self.jobs += jobs;
        self.since.get_or_insert_with(Instant::now);
    }

    /// Logs their number, if there are any.
    fn tell(&mut self) {
        if self.since.take().is_some() && self.jobs > 0 {
            let jobs = std::mem::take(&mut self.jobs);
            tracing::warn!(jobs, "jobs expired before they could start; they are dead letters now");
        }
    }
}

impl Drop for Untold {
    fn drop(&mut self) {
        self.tell();
    }
}

impl Expiry {
    pub(crate) fn new(store: Arc<dyn Maintenance>, wakeup: Arc<WakeUp>) -> Self {
        Self { store, wakeup, untold: Untold::default() }
    }
}

impl Periodic for Expiry {
    const FAILED: &'static str = "expired jobs could not be removed";

    async fn run(&mut self) -> Result<Next> {
        let expired = self.store.expire_jobs(BATCH).await?;
        if expired.jobs > 0 {
            self.untold.add(expired.jobs);
            // The groups and permits they held are free.
            self.wakeup.notify([Hint::Admission]);
        }
        if expired.next != Some(Duration::ZERO) || self.untold.since.is_some_and(|since| since.elapsed() >= TOGETHER) {
            self.untold.tell();
        }
        Ok(match expired.next {
            Some(Duration::ZERO) => Next::Now,
            next => Next::Due(next),
        })
    }
}
