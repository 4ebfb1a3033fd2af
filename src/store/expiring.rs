//! Jobs whose time to live is over.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;

/// Why a job became a dead letter when its time to live was over before it could start.
pub(crate) const EXPIRED: &str = "expired";

/// What a look at jobs with a time to live did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Jobs that are dead letters now.
    pub jobs: u64,
    /// When the next one expires, counted from now; zero if there is more to do at once, `None` if there is none.
    pub next: Option<Duration>,
}

/// Removes jobs whose time to live is over. No claim takes them any more, so when this happens decides only how long they are seen.
#[async_trait]
pub trait Expiring: Send + Sync {
    /// Makes dead letters, with the reason `expired`, of jobs that wait (for a node, for admission, or for their time) and whose time to
    /// live is over: in one transaction, at most `limit` in each of these states. One that runs, or is in the hands of an external
    /// worker, goes on. What it held (its group, its places under limits) is free again, but for the group of an
    /// [`ordered`](crate::NewJob::ordered) one that held it already. A dead letter that is requeued lives as long again.
    ///
    /// Keys of unique jobs that were held for a period are forgotten when that is over.
    async fn expire_jobs(&self, limit: usize) -> Result<Expired>;
}
