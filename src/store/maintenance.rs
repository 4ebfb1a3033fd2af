//! What an executor has to do beside running jobs.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::error::Result;

/// Which maintenance may be due. `false`: none of this sort is due, or will be within the time that was asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaintenanceDue {
    /// Timers: [`promote_due`](super::JobStore::promote_due).
    pub timers: bool,
    /// Times to live: [`expire_jobs`](super::Expiring::expire_jobs).
    pub expiry: bool,
    /// Admission: [`admit`](super::Admission::admit), or aging: [`age_jobs`](super::Admission::age_jobs).
    pub admission: bool,
    /// Schedules: [`next_schedule`](super::Schedules::next_schedule), and what follows from it.
    pub schedules: bool,
    /// Leases of external workers: [`expire_external`](super::JobStore::expire_external).
    pub external: bool,
    /// The time by the database's clock, if it was read.
    pub now: Option<Timestamp>,
}

impl MaintenanceDue {
    /// Everything may be due.
    pub const ANY: Self =
        Self { timers: true, expiry: true, admission: true, schedules: true, external: true, now: None };
}

/// Asks what maintenance is due. This is one query in place of five, because an idle node makes it every
/// [`poll_interval`](crate::ExecutorConfig::poll_interval).
#[async_trait]
pub trait Maintenance: Send + Sync {
    /// Returns what is due now or within `ahead`. A store that can't ask more cheaply than do the work returns
    /// [`ANY`](MaintenanceDue::ANY).
    async fn maintenance_due(&self, ahead: Duration) -> Result<MaintenanceDue> {
        let _ = ahead;
        Ok(MaintenanceDue::ANY)
    }
}
