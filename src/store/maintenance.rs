//! What an executor has to do beside running jobs.

use jiff::Timestamp;
use std::time::Duration;

/// Which maintenance may be due. `false`: none of this sort is due, or will be within the time that was asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaintenanceDue {
    /// Timers: [`promote_due`](super::Maintenance::promote_due).
    pub timers: bool,
    /// Times to live: [`expire_jobs`](super::Maintenance::expire_jobs).
    pub expiry: bool,
    /// Admission: [`admit`](super::Maintenance::admit), or aging: [`age_jobs`](super::Maintenance::age_jobs).
    pub admission: bool,
    /// Schedules: [`next_schedule`](super::Schedules::next_schedule), and what follows from it.
    pub schedules: bool,
    /// Leases of external workers: [`expire_external`](super::External::expire_external).
    pub external: bool,
    /// Suspects that wait to be run alone: [`suspects`](super::Acquire::suspects).
    pub suspects: bool,
    /// The time by the database's clock, if it was read.
    pub now: Option<Timestamp>,
}

impl MaintenanceDue {
    /// Everything may be due.
    pub const ANY: Self = Self {
        timers: true,
        expiry: true,
        admission: true,
        schedules: true,
        external: true,
        suspects: true,
        now: None,
    };
}

/// The result of a promotion of due timers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promoted {
    /// How many jobs are waiting now.
    pub jobs: u64,
    /// The queues they wait in.
    pub queues: Vec<String>,
    /// Whether some of them are blocked and wait for admission.
    pub blocked: bool,
    /// Time until the next timer is due; `None` = there is none.
    pub next: Option<Duration>,
}
