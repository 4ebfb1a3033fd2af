//! The role [`Inspect`].

use async_trait::async_trait;

use crate::error::Result;
use crate::job::JobId;
use crate::store::{
    AuditEntry, AuditFilter, DeadLetterGroups, HistoryEntry, HistoryFilter, JobDetail, JobFilter, JobResult,
    JobSummary, Page, Rule, StatusReport,
};

/// What people ask about jobs, nodes and rules. Changes nothing.
#[async_trait]
pub trait Inspect: Send + Sync {
    /// Returns counts, nodes and ages.
    async fn status(&self) -> Result<StatusReport>;

    /// Lists jobs that match, oldest first: at most `page.limit`, starting after `page.after`.
    async fn list(&self, filter: &JobFilter, page: &Page) -> Result<Vec<JobSummary>>;

    /// Returns everything known about one job.
    async fn show(&self, id: JobId) -> Result<Option<JobDetail>>;

    /// Groups dead letters that match by cause, and returns at most `limit` groups. Reads only the newest 100,000.
    async fn dead_letter_groups(&self, filter: &JobFilter, limit: usize) -> Result<DeadLetterGroups>;

    /// Returns entries that match, the newest first, at most `limit`. What is kept is decided by
    /// [`HistoryConfig::keep`](crate::HistoryConfig::keep) of the process that ended the job.
    async fn history(&self, filter: &HistoryFilter, limit: usize) -> Result<Vec<HistoryEntry>>;

    /// Returns the result of a job's handler. `None`: there was none, or its retention is over.
    async fn result(&self, id: JobId) -> Result<Option<JobResult>>;

    /// Returns what operators did, the newest first, at most `limit` entries.
    async fn audit(&self, filter: &AuditFilter, limit: usize) -> Result<Vec<AuditEntry>>;

    /// Returns all rules, by scope and name. If the shares of a rule can't be read, the rest of it holds, and its permits are not divided.
    async fn rules(&self) -> Result<Vec<Rule>>;
}
