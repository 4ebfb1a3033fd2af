//! Which function serves which method of the roles. `Schedules` is implemented beside its statements.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::types::ToSql;

use super::database::Postgres;
use super::{
    admin, admission, aging, audit, claim, clock, delivered, expiring, external, group_claim, hints, history, insert,
    installation, job_operations, maintenance, migrate, nodes, progress, queue_capacity, receive, reconcile, retry,
    rows, rules, schedules, settle, status, suspects,
};
use crate::config::{DatabaseConfig, HistoryConfig};
use crate::error::Result;
use crate::job::{ClaimNumber, Fence, HandOutNumber, Job, JobId, JobMessage, NodeId, ReportKey, Submission};
use crate::store::reconcile::Reconciled;
use crate::store::{
    Acquitted, Action, AdmissionLag, AdmitRequest, Admitted, Adoption, AffectedJobs, AuditEntry, AuditFilter,
    ClaimRequest, Claimed, Claims, Completed, DeadLetterGroups, Enqueue, Expired, Extension, External, ExternalDone,
    FullQueue, GroupClaim, GroupsClaimed, HeldJob, Hint, HintStream, HistoryEntry, HistoryFilter, Inserted,
    Installation, JobDetail, JobFilter, JobProgress, JobResult, JobSummary, Maintenance, MaintenanceDue,
    MigrationStatus, NodeHeartbeat, NodeInfo, Nodes, Operator, OperatorOptions, Outage, Outcomes, Page, Preclaim,
    ProgressUpdate, Promoted, Received, Released, Rule, RuleEdit, Scope, ServerIdentity, Settlement, SkewedRows,
    StatusReport, StoreInfo, Suspect, UnreadableRow,
};

impl StoreInfo for Postgres {
    fn describe(&self) -> String {
        format!("{} (schema {})", self.0.label, self.0.config.schema)
    }

    fn outage(&self) -> Option<&Arc<Outage>> {
        Some(&self.0.label.outage)
    }

    fn is_single_writer(&self) -> bool {
        false
    }

    fn history_config(&self) -> HistoryConfig {
        self.0.config.history.clone()
    }
}

#[async_trait]
impl Enqueue for Postgres {
    async fn insert(&self, messages: &[JobMessage], owned: Option<&Preclaim>) -> Result<Inserted> {
        insert::insert(&self.0, messages, owned).await
    }

    async fn receive(&self, submissions: &[Submission]) -> Result<Vec<Received>> {
        receive::receive(&self.0, submissions).await
    }

    async fn full(&self, queues: &[&str]) -> Result<Vec<FullQueue>> {
        queue_capacity::full(&self.0, queues).await
    }

    async fn unhide(&self, ids: &[JobId]) -> Result<Vec<String>> {
        delivered::unhide(&self.0, ids).await
    }

    async fn notify(&self, hints: &[Hint]) -> Result<()> {
        hints::notify(&self.0, hints).await
    }

    async fn listen(&self) -> Result<Option<Box<dyn HintStream>>> {
        hints::listen(&self.0).await
    }
}

#[async_trait]
impl Claims for Postgres {
    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claimed> {
        claim::claim(&self.0, request).await
    }

    async fn claim_delivered(
        &self,
        node: NodeId,
        claim: ClaimNumber,
        deliveries: &[Fence],
        kinds: Option<&[String]>,
    ) -> Result<Vec<Job>> {
        delivered::claim_delivered(&self.0, node, claim, deliveries, kinds).await
    }

    async fn suspects(&self, queues: &[String], kinds: Option<&[String]>, limit: usize) -> Result<Vec<Suspect>> {
        suspects::suspects(&self.0, queues, kinds, limit).await
    }

    async fn acquit(&self, ids: &[JobId]) -> Result<Acquitted> {
        suspects::acquit(&self.0, ids).await
    }

    async fn release_unknown(&self, node: NodeId, known: &[Fence], before: Option<ClaimNumber>) -> Result<u64> {
        nodes::release_unknown(&self.0, node, known, before).await
    }

    async fn release_claimed(&self, node: NodeId, claim: ClaimNumber, ids: &[JobId]) -> Result<u64> {
        nodes::release_claimed(&self.0, node, claim, ids).await
    }
}

#[async_trait]
impl Outcomes for Postgres {
    async fn complete(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<JobId>> {
        settle::complete(&self.0, node, fences).await
    }

    async fn complete_and_claim_next(
        &self,
        node: NodeId,
        claim: ClaimNumber,
        ended: &[Fence],
        groups: &[GroupClaim],
        kinds: &[String],
    ) -> Result<GroupsClaimed> {
        group_claim::complete_and_claim_next(&self.0, node, claim, ended, groups, kinds).await
    }

    async fn settle(&self, node: NodeId, settlements: &[Settlement]) -> Result<Vec<JobId>> {
        settle::settle(&self.0, node, settlements).await
    }

    async fn held(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<HeldJob>> {
        settle::held(&self.0, Some(node), &rows::fence_columns(fences).0).await
    }

    async fn put_off(&self, node: NodeId, fence: Fence, by: Duration) -> Result<()> {
        let params: [&(dyn ToSql + Sync); 4] = [&node.0, fence.id.as_uuid(), &fence.version, &rows::micros(by)];
        self.0.engine("put a job off", &self.0.sql.put_off, &params).await.map(drop)
    }

    async fn handlers_ended(&self, node: NodeId, fences: &[Fence]) -> Result<u64> {
        nodes::handlers_ended(&self.0, Some(node), fences).await
    }

    async fn stale_claims(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<Fence>> {
        job_operations::stale_claims(&self.0, node, fences).await
    }

    async fn record_progress(&self, node: NodeId, fence: Fence, update: &ProgressUpdate) -> Result<bool> {
        progress::record_progress(&self.0, node, fence, update).await
    }

    async fn progress(&self, id: JobId) -> Result<Option<JobProgress>> {
        progress::progress(&self.0, id).await
    }
}

#[async_trait]
impl Nodes for Postgres {
    async fn register_node(&self, node: &NodeInfo) -> Result<NodeId> {
        nodes::register(&self.0, node).await
    }

    async fn heartbeat(&self, node: NodeId) -> Result<bool> {
        let rows = self.0.engine("renew the node's lease", &self.0.sql.heartbeat, &[&node.0]).await?;
        Ok(!rows.is_empty())
    }

    async fn identity(&self) -> Result<Option<ServerIdentity>> {
        let rows = self.0.engine("ask which server this is", &self.0.sql.server, &[]).await?;
        let row = rows::single(&rows)?;
        Ok(Some(ServerIdentity { history: rows::get(row, "history")?, started: rows::get(row, "started")? }))
    }

    async fn retire_node(&self, node: NodeId) -> Result<u64> {
        nodes::retire(&self.0, node).await
    }

    async fn detached(&self) -> Result<Arc<dyn Nodes>> {
        let config = DatabaseConfig { max_connections: 1, ..self.0.config.clone() };
        let (target, sql) = (self.0.target.clone(), self.0.sql.clone());
        Ok(Arc::new(Postgres::connect_to(&config, target, &self.0.label, sql).await?))
    }

    fn reconnect(&self) {
        for pool in [&self.0.engine, &self.0.user] {
            pool.retain(|_, _| false);
        }
    }

    async fn report_broker(&self, node: NodeId, mode: Option<&str>) -> Result<()> {
        self.0.engine("report the broker's mode", &self.0.sql.report_broker, &[&node.0, &mode]).await.map(drop)
    }

    async fn report_left_alone(&self, node: NodeId, kinds: Option<&str>) -> Result<()> {
        self.0.engine("report the kinds left alone", &self.0.sql.report_left_alone, &[&node.0, &kinds]).await.map(drop)
    }

    async fn takes_writes(&self) -> Result<()> {
        self.0.engine_once("see whether the tables take writes", &self.0.sql.takes_writes, &[]).await.map(drop)
    }

    async fn node_heartbeats(&self) -> Result<Vec<NodeHeartbeat>> {
        nodes::node_heartbeats(&self.0).await
    }

    async fn declare_dead(&self, silent: &[NodeHeartbeat]) -> Result<Vec<NodeId>> {
        nodes::declare_dead(&self.0, silent).await
    }

    async fn release_lost(&self, limit: usize, quarantine: Option<NonZeroU32>) -> Result<Released> {
        nodes::release_lost(&self.0, limit, quarantine).await
    }
}

#[async_trait]
impl Maintenance for Postgres {
    async fn maintenance_due(&self, ahead: Duration) -> Result<MaintenanceDue> {
        maintenance::maintenance_due(&self.0, ahead).await
    }

    async fn promote_due(&self, limit: usize) -> Result<Promoted> {
        maintenance::promote_due(&self.0, limit).await
    }

    async fn expire_jobs(&self, limit: usize) -> Result<Expired> {
        expiring::expire_jobs(&self.0, limit).await
    }

    async fn admit(&self, request: &AdmitRequest<'_>) -> Result<Admitted> {
        admission::admit(&self.0, request).await
    }

    async fn finish_rule_change(&self) -> Result<()> {
        rules::finish_change(&self.0).await
    }

    async fn age_jobs(&self, limit: usize) -> Result<u64> {
        aging::age_jobs(&self.0, limit).await
    }

    async fn repair_clock(&self) -> Result<Vec<SkewedRows>> {
        clock::repair_clock(&self.0).await
    }

    async fn reconcile(&self, before: &Reconciled) -> Result<Reconciled> {
        reconcile::reconcile(&self.0, before).await
    }

    async fn prune_history(&self, age: Duration, limit: usize) -> Result<u64> {
        history::prune_history(&self.0, age, limit).await
    }

    async fn prune_results(&self, limit: usize) -> Result<u64> {
        history::prune_results(&self.0, limit).await
    }

    async fn prune_progress(&self, limit: usize) -> Result<u64> {
        progress::prune_progress(&self.0, limit).await
    }

    async fn prune_submissions(&self, age: Duration, limit: usize) -> Result<u64> {
        receive::prune(&self.0, age, limit).await
    }

    async fn prune_rates(&self, limit: usize) -> Result<u64> {
        admission::prune_rates(&self.0, limit).await
    }

    async fn prune_keys(&self, limit: usize) -> Result<u64> {
        reconcile::prune_keys(&self.0, limit).await
    }

    async fn prune_dead_letters(&self, age: Duration, limit: usize) -> Result<u64> {
        history::prune_dead_letters(&self.0, age, limit).await
    }

    async fn prune_audit(&self, age: Duration, limit: usize) -> Result<u64> {
        history::prune_audit(&self.0, age, limit).await
    }
}

#[async_trait]
impl External for Postgres {
    async fn hand_out(&self, queue: &str, limit: usize, lease: Duration, token: HandOutNumber) -> Result<Vec<Job>> {
        external::hand_out(&self.0, queue, limit, lease, token).await
    }

    async fn report_key(&self) -> Result<ReportKey> {
        external::report_key(&self.0).await
    }

    async fn take_back(&self, fences: &[Fence]) -> Result<u64> {
        external::take_back(&self.0, fences).await
    }

    async fn complete_external(&self, done: &[ExternalDone]) -> Result<Completed> {
        external::complete(&self.0, done).await
    }

    async fn handed_out(&self, fence: Fence) -> Result<Option<JobDetail>> {
        admin::handed_out(&self.0, fence).await
    }

    async fn settle_external(&self, settlements: &[Settlement]) -> Result<Vec<JobId>> {
        external::settle(&self.0, settlements).await
    }

    async fn extend_external(&self, extensions: &[Extension]) -> Result<Vec<JobId>> {
        external::extend(&self.0, extensions).await
    }

    async fn expire_external(&self, limit: usize) -> Result<Released> {
        external::expire(&self.0, limit).await
    }
}

#[async_trait]
impl Operator for Postgres {
    async fn migrate(&self) -> Result<Vec<MigrationStatus>> {
        migrate::migrate(&self.0, migrate::MIGRATIONS).await
    }

    async fn migration_status(&self) -> Result<Vec<MigrationStatus>> {
        migrate::status(&self.0, migrate::MIGRATIONS).await
    }

    async fn installation(&self) -> Result<Option<Installation>> {
        installation::installation(&self.0).await.map(Some)
    }

    async fn adopt(&self, adoption: Adoption, by: Option<&str>) -> Result<Option<Installation>> {
        installation::adopt(&self.0, adoption, by).await.map(Some)
    }

    async fn status(&self) -> Result<StatusReport> {
        status::status(&self.0).await
    }

    async fn list(&self, filter: &JobFilter, page: &Page) -> Result<Vec<JobSummary>> {
        admin::list(&self.0, filter, page).await
    }

    async fn show(&self, id: JobId) -> Result<Option<JobDetail>> {
        admin::show(&self.0, id).await
    }

    async fn dead_letter_groups(&self, filter: &JobFilter, limit: usize) -> Result<DeadLetterGroups> {
        retry::dead_letter_groups(&self.0, filter, limit).await
    }

    async fn history(&self, filter: &HistoryFilter, limit: usize) -> Result<Vec<HistoryEntry>> {
        history::history(&self.0, filter, limit).await
    }

    async fn result(&self, id: JobId) -> Result<Option<JobResult>> {
        history::result(&self.0, id).await
    }

    async fn audit(&self, filter: &AuditFilter, limit: usize) -> Result<Vec<AuditEntry>> {
        audit::audit(&self.0, filter, limit).await
    }

    async fn rules(&self) -> Result<Vec<Rule>> {
        rules::rules(&self.0).await
    }

    async fn operate(
        &self,
        filter: &JobFilter,
        action: &Action,
        operator: OperatorOptions<'_>,
    ) -> Result<AffectedJobs> {
        job_operations::operate(&self.0, filter, action, operator).await
    }

    async fn evict(&self, node: NodeId, by: Option<&str>) -> Result<Option<Released>> {
        job_operations::evict(&self.0, node, by).await
    }

    async fn change_rule(&self, scope: Scope, name: &str, edit: RuleEdit, by: Option<&str>) -> Result<Rule> {
        rules::change_rule(&self.0, scope, name, edit, by).await
    }

    async fn permit_faults(&self) -> Result<Vec<String>> {
        admission::permit_faults(&self.0).await
    }

    async fn overdue_unblocks(&self) -> Result<AdmissionLag> {
        admission::overdue_unblocks(&self.0).await
    }

    async fn clock_skew(&self) -> Result<Vec<SkewedRows>> {
        clock::clock_skew(&self.0).await
    }

    async fn rule_faults(&self) -> Result<Vec<UnreadableRow>> {
        rules::rule_faults(&self.0).await
    }

    async fn schedule_faults(&self) -> Result<Vec<UnreadableRow>> {
        schedules::schedule_faults(&self.0).await
    }
}
