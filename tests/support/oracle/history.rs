//! The oracle keeps no history: the history is tested on the stores that keep it.

use std::time::Duration;

use async_trait::async_trait;
use jobwright::store::{History, HistoryEntry, HistoryFilter, JobProgress, JobResult, Progress, ProgressUpdate};
use jobwright::{Fence, HistoryConfig, JobId, NodeId, Result};

use super::Oracle;

#[async_trait]
impl History for Oracle {
    fn history_config(&self) -> HistoryConfig {
        HistoryConfig::default()
    }

    async fn history(&self, _: &HistoryFilter, _: usize) -> Result<Vec<HistoryEntry>> {
        Ok(Vec::new())
    }

    async fn prune_history(&self, _: Duration, _: usize) -> Result<u64> {
        Ok(0)
    }

    async fn prune_audit(&self, _: Duration, _: usize) -> Result<u64> {
        panic!("the oracle keeps no audit")
    }

    async fn prune_dead_letters(&self, _: Duration, _: usize) -> Result<u64> {
        panic!("the oracle keeps dead letters for ever")
    }

    async fn result(&self, _: JobId) -> Result<Option<JobResult>> {
        panic!("the oracle keeps no results")
    }

    async fn prune_results(&self, _: usize) -> Result<u64> {
        Ok(0)
    }
}

#[async_trait]
impl Progress for Oracle {
    async fn record_progress(&self, _: NodeId, _: Fence, _: &ProgressUpdate) -> Result<bool> {
        panic!("the oracle keeps no progress")
    }

    async fn progress(&self, _: JobId) -> Result<Option<JobProgress>> {
        Ok(None)
    }

    async fn prune_progress(&self, _: usize) -> Result<u64> {
        Ok(0)
    }
}
