//! Releases jobs that external workers did not report in time.

use std::sync::Arc;

use crate::error::Result;
use crate::executor::maintenance::monitor::{BATCH, handlers_lost};
use crate::executor::maintenance::periodic::{Next, Periodic};
use crate::executor::metrics::releases::ReleaseReason;
use crate::executor::metrics::stats::Counters;
use crate::message::WakeUp;
use crate::store::{External, Hint};

/// Releases jobs whose external worker let its lease run out. This is done here and not in the broker's tasks, so that it goes on when no
/// node reaches the broker.
pub(crate) struct ExternalLeases {
    pub(crate) store: Arc<dyn External>,
    pub(crate) wakeup: Arc<WakeUp>,
    pub(crate) counters: Arc<Counters>,
}

impl Periodic for ExternalLeases {
    const FAILED: &'static str = "could not look for late external workers";

    async fn run(&mut self) -> Result<Next> {
        let released = self.store.expire_external(BATCH).await?;
        if released.total() > 0 {
            tracing::warn!(
                waiting = released.waiting,
                dead_letters = released.dead,
                "external workers did not report in time; their jobs were released"
            );
            self.counters.releases.add_many(ReleaseReason::WorkerLost.as_str(), released.waiting);
            self.wakeup.notify([Hint::Any]);
        }
        handlers_lost(released, &self.wakeup);
        Ok(if released.total() < BATCH as u64 { Next::Due(None) } else { Next::Now })
    }
}
