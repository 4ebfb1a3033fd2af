//! Expiry of jobs whose time to live is over.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;

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

/// Expires jobs whose time to live is over. Claims do not take them any more, so when this runs decides only how long they are shown as
/// waiting.
#[async_trait]
pub trait Expiring: Send + Sync {
    /// Makes jobs dead letters, with the reason `expired`, that wait (for a node, for admission, or for their due date) and whose time to
    /// live is over: at most `limit` in each of these states, in one transaction. Running jobs and jobs handed out to external workers go on.
    ///
    /// What an expired job held (its group, its permits) is released, except for the group of an [`ordered`](crate::NewJob::ordered) job
    /// that held it already. The time to live of a dead letter that is requeued begins again.
    ///
    /// Also forgets keys of unique jobs that were held for a period, when that is over.
    async fn expire_jobs(&self, limit: usize) -> Result<Expired>;
}
