//! The work of operators: lists and details of jobs here, the rest beside its statements.

use async_trait::async_trait;
use rusqlite::named_params;

use super::database::Sqlite;
use super::filter::Filter;
use super::migrate::MIGRATIONS;
use super::rows::{count, detail, state, summary};
use super::statements::{Statement, statement};
use crate::error::Result;
use crate::job::{JobId, NodeId};
use crate::store::sections::section;
use crate::store::{
    Action, AdmissionLag, Adoption, AffectedJobs, AuditEntry, AuditFilter, DeadLetterGroups, HistoryEntry,
    HistoryFilter, Installation, JobDetail, JobFilter, JobPosition, JobResult, JobState, JobSummary, KeyQuestion,
    KeyUse, MigrationStatus, Operator, OperatorOptions, OverdueWork, Page, Released, Rule, RuleEdit, Sampled, Scope,
    ServingNode, SkewedRows, StatusReport, UnreadableJobs, UnreadableRow, WaitingClass, WaitingKinds,
};

const SQL: &str = include_str!("admin.sql");
const STATE: &str = section(SQL, "state");
const LIST: &str = section(SQL, "list");
const LIST_ALL: &str = section(SQL, "list_all");
static SHOW: Statement = statement!(SQL, "show");

/// How many rows of each sort are looked at by checks that do not read everything.
const ROWS: i64 = 100_000;

#[async_trait]
impl Operator for Sqlite {
    async fn migrate(&self) -> Result<Vec<MigrationStatus>> {
        self.0.migrate(MIGRATIONS).await
    }

    async fn migration_status(&self) -> Result<Vec<MigrationStatus>> {
        self.0.migration_status(MIGRATIONS).await
    }

    async fn installation(&self) -> Result<Option<Installation>> {
        self.0.installation().await.map(Some)
    }

    async fn adopt(&self, adoption: Adoption, by: Option<&str>) -> Result<Option<Installation>> {
        self.0.adopt(adoption, by).await.map(Some)
    }

    async fn status(&self) -> Result<StatusReport> {
        self.0.status().await
    }

    async fn list(&self, filter: &JobFilter, page: &Page) -> Result<Vec<JobSummary>> {
        let chosen = Filter::new(filter, JobState::ALL);
        let (after, limit) = (page.after.unwrap_or(i64::MIN), count(page.limit));
        self.0
            .query("list jobs", move |connection, _| {
                let values = named_params! { ":after": after, ":limit": limit };
                Ok(chosen.query(connection, (LIST, LIST_ALL), values, summary)?)
            })
            .await
    }

    async fn show(&self, id: JobId) -> Result<Option<JobDetail>> {
        self.0
            .query("show a job", move |connection, _| {
                let mut statement = connection.prepare_cached(&SHOW)?;
                let mut found = statement.query_map(named_params! { ":id": id.as_uuid().as_bytes() }, detail)?;
                Ok(found.next().transpose()?)
            })
            .await
    }

    async fn job_state(&self, id: JobId) -> Result<Option<JobState>> {
        self.0
            .query("look for a job", move |connection, _| {
                let mut statement = connection.prepare_cached(STATE)?;
                let mut found = statement.query_map(named_params! { ":id": id.as_uuid().as_bytes() }, state)?;
                Ok(found.next().transpose()?)
            })
            .await
    }

    async fn dead_letter_groups(&self, filter: &JobFilter, newest: usize, limit: usize) -> Result<DeadLetterGroups> {
        self.0.dead_letter_groups(filter, newest, limit).await
    }

    async fn history(&self, filter: &HistoryFilter, limit: usize) -> Result<Vec<HistoryEntry>> {
        self.0.history(filter, limit).await
    }

    async fn result(&self, id: JobId) -> Result<Option<JobResult>> {
        self.0.result(id).await
    }

    async fn audit(&self, filter: &AuditFilter, limit: usize) -> Result<Vec<AuditEntry>> {
        self.0.audit(filter, limit).await
    }

    async fn rules(&self) -> Result<Vec<Rule>> {
        self.0.rules().await
    }

    async fn operate(
        &self,
        filter: &JobFilter,
        action: &Action,
        operator: OperatorOptions<'_>,
    ) -> Result<AffectedJobs> {
        self.0.operate(filter, action, operator).await
    }

    async fn evict(&self, node: NodeId, by: Option<&str>) -> Result<Option<Released>> {
        self.0.evict(node, by).await
    }

    async fn change_rule(&self, scope: Scope, name: &str, edit: RuleEdit, by: Option<&str>) -> Result<Rule> {
        self.0.change_rule(scope, name, edit, by).await
    }

    async fn permit_faults(&self) -> Result<Vec<String>> {
        self.0.permit_faults(i64::MAX).await
    }

    async fn sampled_permit_faults(&self) -> Result<Sampled<Vec<String>>> {
        Ok(Sampled { complete: self.0.is_small(ROWS).await?, found: self.0.permit_faults(ROWS).await? })
    }

    async fn overdue_work(&self) -> Result<OverdueWork> {
        self.0.overdue_work().await
    }

    async fn overdue_unblocks(&self) -> Result<AdmissionLag> {
        self.0.overdue_unblocks().await
    }

    async fn clock_skew(&self) -> Result<Vec<SkewedRows>> {
        self.0.clock_skew(i64::MAX).await
    }

    async fn sampled_clock_skew(&self) -> Result<Sampled<Vec<SkewedRows>>> {
        Ok(Sampled { complete: self.0.is_small(ROWS).await?, found: self.0.clock_skew(ROWS).await? })
    }

    async fn unreadable_jobs(&self) -> Result<UnreadableJobs> {
        self.0.unreadable_jobs().await
    }

    async fn position(&self, id: JobId) -> Result<JobPosition> {
        self.0.position(id).await
    }

    async fn serving_nodes(&self) -> Result<Vec<ServingNode>> {
        self.0.serving_nodes().await
    }

    async fn key_uses(&self, keys: &[KeyQuestion]) -> Result<Vec<KeyUse>> {
        self.0.key_uses(keys).await
    }

    async fn waiting_classes(&self, queue: Option<&str>, kind: Option<&str>) -> Result<Vec<WaitingClass>> {
        self.0.waiting_classes(queue, kind).await
    }

    async fn waiting_kinds(&self, queues: &[&str]) -> Result<WaitingKinds> {
        self.0.waiting_kinds(queues).await
    }

    async fn rule_faults(&self) -> Result<Vec<UnreadableRow>> {
        self.0.rule_faults().await
    }

    async fn schedule_faults(&self) -> Result<Vec<UnreadableRow>> {
        self.0.schedule_faults().await
    }
}
