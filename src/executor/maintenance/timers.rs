//! Moves due timers to the waiting jobs.

use std::sync::Arc;

use crate::error::Result;
use crate::executor::maintenance::periodic::{Next, Periodic};
use crate::message::WakeUp;
use crate::store::{Hint, Maintenance};

/// The most timers moved in one transaction.
const BATCH: usize = 1000;

/// Moves due timers. Every node does.
pub(crate) struct Timers {
    pub(crate) store: Arc<dyn Maintenance>,
    pub(crate) wakeup: Arc<WakeUp>,
}

impl Periodic for Timers {
    const FAILED: &'static str = "due timers could not be moved";

    async fn run(&mut self) -> Result<Next> {
        let promoted = self.store.promote_due(BATCH).await?;
        let blocked = promoted.blocked.then_some(Hint::Admission);
        self.wakeup.notify(promoted.queues.into_iter().map(Hint::Rescan).chain(blocked));
        Ok(if promoted.jobs >= BATCH as u64 { Next::Now } else { Next::Due(promoted.next) })
    }
}
