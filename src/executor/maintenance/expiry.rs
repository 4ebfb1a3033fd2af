//! Dead-letters jobs whose time to live is over.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::executor::maintenance::periodic::{Next, Periodic};
use crate::message::WakeUp;
use crate::store::{Hint, Maintenance};

/// The most jobs removed in one transaction, in each state.
const BATCH: usize = 500;

/// Expires jobs. Every node does.
pub(crate) struct Expiry {
    pub(crate) store: Arc<dyn Maintenance>,
    pub(crate) wakeup: Arc<WakeUp>,
}

impl Periodic for Expiry {
    const FAILED: &'static str = "expired jobs could not be removed";

    async fn run(&mut self) -> Result<Next> {
        let expired = self.store.expire_jobs(BATCH).await?;
        if expired.jobs > 0 {
            tracing::info!(jobs = expired.jobs, "jobs expired before they could start; they are dead letters now");
            // The groups and permits they held are free.
            self.wakeup.notify([Hint::Admission]);
        }
        Ok(match expired.next {
            Some(Duration::ZERO) => Next::Now,
            next => Next::Due(next),
        })
    }
}
