//! The role [`Maintenance`].

use std::time::Duration;

use async_trait::async_trait;

use super::StoreInfo;
use crate::error::Result;
use crate::store::reconcile::Reconciled;
use crate::store::{AdmitRequest, Admitted, Expired, MaintenanceDue, MaintenanceRequest, Promoted, SkewedRows};

/// Acts on what becomes due, expires, may start, or is old. Its caller says how old: see [`history_config`](StoreInfo::history_config).
#[async_trait]
#[doc(hidden)]
pub trait Maintenance: StoreInfo + Send + Sync {
    /// Returns what is due now or within a time, and in which queues jobs wait. A store that can't ask more cheaply than do the work returns
    /// [`ANY`](MaintenanceDue::ANY).
    async fn maintenance_due(&self, request: &MaintenanceRequest<'_>) -> Result<MaintenanceDue> {
        let _ = request;
        Ok(MaintenanceDue::ANY)
    }

    /// Makes at most `limit` due timers wait to be claimed.
    async fn promote_due(&self, limit: usize) -> Result<Promoted>;

    /// Makes jobs dead letters, with the reason `expired`, that wait (for a node, for admission, or for their due date) and whose time to
    /// live is over: at most `limit` in each of these states, in one transaction. Running jobs and jobs handed out to external workers go on.
    ///
    /// What an expired job held (its group, its permits) is released, except for the group of an [`ordered`](crate::NewJob::ordered) job
    /// that held it already. The time to live of a dead letter that is requeued begins again.
    ///
    /// Also forgets keys of unique jobs that were held for a period, when that is over.
    async fn expire_jobs(&self, limit: usize) -> Result<Expired>;

    /// Makes one admission pass, in one transaction. With nothing to do it costs one short query.
    async fn admit(&self, request: &AdmitRequest<'_>) -> Result<Admitted>;

    /// Finishes the change of a rule that another process began, if all claims under way end within a moment. Otherwise it does nothing,
    /// and has to be called again. A store that changes rules in one transaction has nothing to do here.
    async fn finish_rule_change(&self) -> Result<()> {
        Ok(())
    }

    /// Raises jobs that have waited long, as the rules of their queues say: the oldest `limit` of each queue and priority. Returns how many it
    /// raised.
    async fn age_jobs(&self, limit: usize) -> Result<u64>;

    /// Repairs times that delay work and lie further ahead than they can: of unblocks, starts under a rate, leases of external workers,
    /// times to live, and delays before another attempt. Schedules have their own
    /// [`repair_clock`](crate::store::schedules::repair_clock). Returns what it repaired. If there is nothing to repair, it reads a few rows of
    /// each.
    async fn repair_clock(&self) -> Result<Vec<SkewedRows>>;

    /// Makes one step of a reconciliation: takes back the permits that the step before it found without a holder, if they still have none, and
    /// looks at the next ones. Unblocks keys that jobs are blocked on for no reason. A store in which nothing passes the triggers by does nothing.
    async fn reconcile(&self, before: &Reconciled) -> Result<Reconciled> {
        let _ = before;
        Ok(Reconciled::default())
    }

    /// Forgets at most `limit` entries of the history older than `age`, the oldest first. Returns how many.
    async fn prune_history(&self, age: Duration, limit: usize) -> Result<u64>;

    /// Forgets at most `limit` results whose retention is over. Returns how many.
    async fn prune_results(&self, limit: usize) -> Result<u64>;

    /// Forgets the progress of at most `limit` jobs that are gone. Returns how many.
    async fn prune_progress(&self, limit: usize) -> Result<u64>;

    /// Forgets at most `limit` ids of submissions that are older than `age`. Returns how many.
    async fn prune_submissions(&self, age: Duration, limit: usize) -> Result<u64>;

    /// Forgets at most `limit` counts of starts that no rate reaches back to. Returns how many. It is not part of an admission pass, because all
    /// admission waits while a pass runs.
    async fn prune_rates(&self, limit: usize) -> Result<u64>;

    /// Forgets unique keys whose jobs are in no table, among about `limit` that it looks at. Returns how many. It is only to tidy up: such a key
    /// blocks no sender.
    async fn prune_keys(&self, limit: usize) -> Result<u64> {
        let _ = limit;
        Ok(0)
    }

    /// Removes at most `limit` dead letters that died longer ago than `age`, the oldest first. Returns how many. Adds nothing to the history, which
    /// has recorded their death.
    async fn prune_dead_letters(&self, age: Duration, limit: usize) -> Result<u64>;

    /// Forgets at most `limit` entries of the audit older than `age`, the oldest first. Returns how many.
    async fn prune_audit(&self, age: Duration, limit: usize) -> Result<u64>;
}
