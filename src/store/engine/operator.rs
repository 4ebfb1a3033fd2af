//! The role [`Operator`].

use async_trait::async_trait;

use super::StoreInfo;
use crate::error::Result;
use crate::job::{JobId, NodeId};
use crate::store::migration::{self, MigrationStatus};
use crate::store::{
    Action, AdmissionLag, Adoption, AffectedJobs, AuditEntry, AuditFilter, DeadLetterGroups, HistoryEntry,
    HistoryFilter, Installation, JobDetail, JobFilter, JobPosition, JobResult, JobState, JobSummary, KeyQuestion,
    KeyUse, OperatorOptions, OverdueWork, Page, Released, Rule, RuleEdit, Sampled, Scope, ServingNode, SkewedRows,
    SqlWorker, StatusReport, UnreadableJobs, UnreadableRow, VacuumStatus, WaitingClass, WaitingKinds,
};

/// What people ask about the tables, jobs, nodes and rules, and what they do with them. Each change goes into the audit if the operator
/// is named.
#[async_trait]
#[doc(hidden)]
pub trait Operator: StoreInfo + Send + Sync {
    /// Applies the missing migrations. Safe when many processes start at once. Refuses a newer schema that this build does not run on.
    async fn migrate(&self) -> Result<Vec<MigrationStatus>>;

    /// Returns which migrations are applied and which are missing. Changes nothing.
    async fn migration_status(&self) -> Result<Vec<MigrationStatus>>;

    /// Returns to which installation the database belongs, and whether it is where that was made. `None`: this store knows no installations.
    async fn installation(&self) -> Result<Option<Installation>> {
        Ok(None)
    }

    /// Makes the database an installation of its own, or records that its installation is here now. `None`: this store knows no installations.
    async fn adopt(&self, adoption: Adoption, by: Option<&str>) -> Result<Option<Installation>> {
        let _ = (adoption, by);
        Ok(None)
    }

    /// Returns counts, nodes and ages. Takes about the same time with any number of jobs: see [`QueueStatus`](crate::store::QueueStatus).
    async fn status(&self) -> Result<StatusReport>;

    /// Lists jobs that match, oldest first: at most `page.limit`, starting after `page.after`.
    async fn list(&self, filter: &JobFilter, page: &Page) -> Result<Vec<JobSummary>>;

    /// Returns everything known about one job.
    async fn show(&self, id: JobId) -> Result<Option<JobDetail>>;

    /// Returns the state of a job; `None` = there is none with this id.
    async fn job_state(&self, id: JobId) -> Result<Option<JobState>> {
        Ok(self.show(id).await?.map(|detail| detail.summary.state))
    }

    /// Groups dead letters that match by cause, and returns at most `limit` groups. Reads so many of the newest.
    async fn dead_letter_groups(&self, filter: &JobFilter, newest: usize, limit: usize) -> Result<DeadLetterGroups>;

    /// Returns entries that match, the newest first, at most `limit`. What is kept is decided by
    /// [`HistoryConfig::keep`](crate::HistoryConfig::keep) of the process that ended the job.
    async fn history(&self, filter: &HistoryFilter, limit: usize) -> Result<Vec<HistoryEntry>>;

    /// Returns the result of a job's handler. `None`: there was none, or its retention is over.
    async fn result(&self, id: JobId) -> Result<Option<JobResult>>;

    /// Returns what operators did, the newest first, at most `limit` entries.
    async fn audit(&self, filter: &AuditFilter, limit: usize) -> Result<Vec<AuditEntry>>;

    /// Returns all rules, by scope and name. If the shares of a rule can't be read, the rest of it holds, and its permits are not divided.
    async fn rules(&self) -> Result<Vec<Rule>>;

    /// Applies an action to the jobs that match, in the order they were sent, some thousands in one transaction. The audit entry, if there is
    /// to be one, is written in the same transactions. Leaves out jobs that start, end or move meanwhile, and jobs that are sent meanwhile.
    ///
    /// If it fails half-way, what was done stays and is in the audit; the same call may be made again. Sends a hint if the store can. Use
    /// `Admin` to wake executors in the same process in any case.
    ///
    /// # Errors
    /// When the action is invalid; then nothing changed.
    async fn operate(&self, filter: &JobFilter, action: &Action, operator: OperatorOptions<'_>)
    -> Result<AffectedJobs>;

    /// Declares a node dead on an operator's order, waits for its claims that are still under way, and releases what it owns as the lock
    /// monitor does: each job's attempt is spent. Returns how many jobs were released; `None` = there is no such node.
    async fn evict(&self, node: NodeId, by: Option<&str>) -> Result<Option<Released>>;

    /// Changes a rule, or a new one that sets nothing yet, and returns the result; a rule that then sets nothing is removed. No other change comes
    /// between reading and writing it. `edit` runs while all admission waits, so it must not take long. Scope and name stay as they are.
    ///
    /// Waiting jobs are checked again. Jobs that run already get permits, even if there are more of them than the rule allows. A job that was
    /// started inside a transaction which has been open for longer than `database.call_timeout` is not counted.
    ///
    /// # Errors
    /// When the rule is invalid; then nothing changed.
    async fn change_rule(&self, scope: Scope, name: &str, edit: RuleEdit, by: Option<&str>) -> Result<Rule>;

    /// Describes faults of the permits: one that no job holds, one that an admitted job lacks, more than a group may have, or jobs blocked on a key
    /// whose permits are free and that nothing will unblock. Empty if all is well and nothing is running. Reads everything: for tests.
    async fn permit_faults(&self) -> Result<Vec<String>>;

    /// Does the same, and of large tables reads a part: for `doctor`.
    async fn sampled_permit_faults(&self) -> Result<Sampled<Vec<String>>>;

    /// Returns how many unblocks are due that no admission pass has acted on yet. It is normal to see some for a short time.
    async fn overdue_unblocks(&self) -> Result<AdmissionLag>;

    /// Returns for how long timers, times to live and leases of external workers have been due.
    async fn overdue_work(&self) -> Result<OverdueWork>;

    /// Returns all times that lie ahead of the clock and should not, also where they delay nothing. Reads everything.
    async fn clock_skew(&self) -> Result<Vec<SkewedRows>>;

    /// Does the same, and of large tables reads a part: for `doctor`. The rows are those of that part.
    async fn sampled_clock_skew(&self) -> Result<Sampled<Vec<SkewedRows>>>;

    /// Returns the place of a job among others, which [`show`](Self::show) does not tell. A job that is gone has none before it.
    async fn position(&self, id: JobId) -> Result<JobPosition>;

    /// Returns all nodes, without a count of what they run.
    async fn serving_nodes(&self) -> Result<Vec<ServingNode>>;

    /// Returns the programs that take jobs by SQL, where the database knows any.
    async fn sql_workers(&self) -> Result<Vec<SqlWorker>> {
        Ok(Vec::new())
    }

    /// Returns the use of each of these keys.
    async fn key_uses(&self, keys: &[KeyQuestion]) -> Result<Vec<KeyUse>>;

    /// Sorts the jobs that wait or are blocked, of a queue or a kind (`None` = of all), by the rules that cover them and the key that blocks them.
    /// Returns the 50 largest classes of the first 100,000 jobs.
    async fn waiting_classes(&self, queue: Option<&str>, kind: Option<&str>) -> Result<Vec<WaitingClass>>;

    /// Returns how many of the newest dead letters are jobs that no executor could read.
    async fn unreadable_jobs(&self) -> Result<UnreadableJobs>;

    /// Counts the waiting jobs of these queues by kind, as far as it can without reading more than a bounded number of jobs.
    async fn waiting_kinds(&self, queues: &[&str]) -> Result<WaitingKinds>;

    /// Returns what keeps dead rows from being cleaned up. `None`: this store has no dead rows.
    async fn vacuum(&self) -> Result<Option<VacuumStatus>> {
        Ok(None)
    }

    /// Returns rules of which something can't be read.
    async fn rule_faults(&self) -> Result<Vec<UnreadableRow>>;

    /// Returns the schedules that this build can't read.
    async fn schedule_faults(&self) -> Result<Vec<UnreadableRow>>;
}

/// Fails, and says what to do, unless the schema has all that this build needs, and nothing that it does not run with.
pub async fn check_schema(store: &dyn Operator) -> Result<()> {
    migration::check(&store.migration_status().await?, &store.describe())
}
