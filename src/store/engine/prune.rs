//! The role [`Prune`].

use std::time::Duration;

use async_trait::async_trait;

use super::StoreInfo;
use crate::error::Result;

/// Forgets what is old. Its caller says how old: see [`history_config`](StoreInfo::history_config).
#[async_trait]
pub trait Prune: StoreInfo + Send + Sync {
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
