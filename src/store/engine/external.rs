//! The role [`External`].

use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;
use crate::job::{Fence, HandOutNumber, Job, JobId, ReportKey};
use crate::store::{Completed, Extension, ExternalDone, JobDetail, Released, Settlement};

/// Hands jobs out to external workers, and records how they end.
#[async_trait]
#[doc(hidden)]
pub trait External: Send + Sync {
    /// Returns whether external workers may take jobs by SQL, without a broker.
    fn is_open_to_sql(&self) -> bool {
        false
    }

    /// Hands out up to `limit` waiting jobs of a queue to external workers, best first, each with a lease. Gives them this number as
    /// `version` and raises their `attempt`.
    async fn hand_out(&self, queue: &str, limit: usize, lease: Duration, token: HandOutNumber) -> Result<Vec<Job>>;

    /// Returns the key that makes the tokens of hand-outs. All processes that use this database have the same.
    async fn report_key(&self) -> Result<ReportKey>;

    /// Makes jobs wait again that were handed out but did not arrive, and gives their attempts back.
    async fn take_back(&self, fences: &[Fence]) -> Result<u64>;

    /// Removes jobs that external workers have done. A job that asked for a reply leaves a row in
    /// [`REPLY_QUEUE`](crate::REPLY_QUEUE).
    async fn complete_external(&self, done: &[ExternalDone]) -> Result<Completed>;

    /// Returns everything known about a job while it is handed out under this token. `None`: it no longer is.
    async fn handed_out(&self, fence: Fence) -> Result<Option<JobDetail>>;

    /// Records other outcomes of external workers, as [`settle`](super::Outcomes::settle) does.
    async fn settle_external(&self, settlements: &[Settlement]) -> Result<Vec<JobId>>;

    /// Renews leases of external workers. Returns the jobs whose leases were renewed.
    async fn extend_external(&self, extensions: &[Extension]) -> Result<Vec<JobId>>;

    /// Releases at most `limit` jobs whose external worker let its lease expire; their attempts are spent.
    async fn expire_external(&self, limit: usize) -> Result<Released>;
}
