//! Expiry of jobs whose time to live is over.

use std::time::Duration;

/// Why a job became a dead letter when its time to live was over before it could start.
pub(crate) const EXPIRED: &str = "expired";

/// The result of an expiry of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// How many jobs became dead letters.
    pub jobs: u64,
    /// Time until the next job expires; zero if there is more to do now, `None` if there is none.
    pub next: Option<Duration>,
}
