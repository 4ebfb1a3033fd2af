//! The role [`Diagnose`].

use async_trait::async_trait;

use crate::error::Result;
use crate::store::{AdmissionLag, SkewedRows, UnreadableRow};

/// What is wrong with the rows. Each method reads everything: for tests and `doctor`.
#[async_trait]
pub trait Diagnose: Send + Sync {
    /// Describes faults of the permits: one that no job holds, one that an admitted job lacks, more than a group may have, or jobs blocked on a key
    /// whose permits are free and that nothing will unblock. Empty if all is well and nothing is running. Reads everything: for tests and `doctor`.
    async fn permit_faults(&self) -> Result<Vec<String>>;

    /// Returns how many unblocks are due that no admission pass has acted on yet. It is normal to see some for a short time.
    async fn overdue_unblocks(&self) -> Result<AdmissionLag>;

    /// Returns all times that lie ahead of the clock and should not, also where they delay nothing. Reads everything: for `doctor`.
    async fn clock_skew(&self) -> Result<Vec<SkewedRows>>;

    /// Returns rules of which something can't be read.
    async fn rule_faults(&self) -> Result<Vec<UnreadableRow>>;

    /// Returns the schedules that this build can't read.
    async fn schedule_faults(&self) -> Result<Vec<UnreadableRow>>;
}
