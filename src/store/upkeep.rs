//! Whether there is anything for an executor to do beside running jobs.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::error::Result;

/// What there may be to do. `false`: nothing, and nothing will be due within the time that was asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpkeepDue {
    /// [`promote_due`](super::JobStore::promote_due).
    pub timers: bool,
    /// [`expire_jobs`](super::Expiring::expire_jobs).
    pub expiry: bool,
    /// [`admit`](super::Admission::admit), or jobs that age.
    pub gates: bool,
    /// [`next_schedule`](super::Schedules::next_schedule), and what follows.
    pub schedules: bool,
    /// [`expire_external`](super::JobStore::expire_external).
    pub external: bool,
    /// What the database's clock says, if it was asked.
    pub now: Option<Timestamp>,
}

impl UpkeepDue {
    /// There may be anything.
    pub const ANY: Self = Self { timers: true, expiry: true, gates: true, schedules: true, external: true, now: None };
}

/// One question in place of five, because an idle node asks it every [`poll_interval`](crate::ExecutorConfig::poll_interval).
#[async_trait]
pub trait Upkeep: Send + Sync {
    /// What there is to do now, or within `ahead`. A store that has no cheaper way of asking than doing it says
    /// [`ANY`](UpkeepDue::ANY).
    async fn upkeep(&self, ahead: Duration) -> Result<UpkeepDue> {
        let _ = ahead;
        Ok(UpkeepDue::ANY)
    }
}
