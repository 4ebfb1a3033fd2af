//! Which function serves which method of the roles. `Schedules` is implemented beside its statements.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::database::Sqlite;
use super::hints;
use super::migrate::MIGRATIONS;
use super::shared::Shared;
use crate::config::{Access, HistoryConfig};
use crate::error::Result;
use crate::job::{ClaimNumber, Fence, HandOutNumber, Job, JobId, JobMessage, NodeId, ReportKey, Submission};
use crate::store::reconcile::Reconciled;
use crate::store::{
    Acquitted, Action, AdmissionLag, AdmitRequest, Admitted, Adoption, AffectedJobs, AuditEntry, AuditFilter,
    ClaimRequest, Claimed, Claims, Completed, DeadLetterGroups, Enqueue, Expired, Extension, External, ExternalDone,
    FullQueue, Hint, HintStream, HistoryEntry, HistoryFilter, Inserted, Installation, JobDetail, JobFilter,
    JobProgress, JobResult, JobState, JobSummary, Maintenance, MaintenanceDue, MigrationStatus, NodeHeartbeat,
    NodeInfo, Nodes, Operator, OperatorOptions, Outcomes, Page, Preclaim, ProgressUpdate, Promoted, Received, Released,
    Rule, RuleEdit, Scope, ServerIdentity, Settlement, SkewedRows, StatusReport, StoreInfo, Suspect, UnreadableRow,
};

impl StoreInfo for Sqlite {
    fn describe(&self) -> String {
        self.0.label.clone()
    }

    fn is_single_writer(&self) -> bool {
        true
    }

    fn history_config(&self) -> HistoryConfig {
        self.0.history.clone()
    }
}

#[async_trait]
impl Enqueue for Sqlite {
    async fn insert(&self, messages: &[JobMessage], owned: Option<&Preclaim>) -> Result<Inserted> {
        self.0.insert(messages, owned).await
    }

    async fn receive(&self, submissions: &[Submission]) -> Result<Vec<Received>> {
        self.0.receive(submissions).await
    }

    async fn full(&self, queues: &[&str]) -> Result<Vec<FullQueue>> {
        self.0.full(queues).await
    }

    async fn unhide(&self, ids: &[JobId]) -> Result<Vec<String>> {
        self.0.unhide(ids).await
    }

    /// Does nothing: listeners detect the commit themselves.
    async fn notify(&self, _hints: &[Hint]) -> Result<()> {
        Ok(())
    }

    async fn listen(&self) -> Result<Option<Box<dyn HintStream>>> {
        let versions = hints::Versions::listen(Arc::clone(&self.0)).await?;
        Ok(Some(Box::new(versions)))
    }
}

#[async_trait]
impl Claims for Sqlite {
    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claimed> {
        let jobs = if request.suspects { self.0.claim_suspects(request).await? } else { self.0.claim(request).await? };
        Ok(Claimed { jobs, reserved_from: None, allowed: None })
    }

    async fn claim_delivered(
        &self,
        node: NodeId,
        claim: ClaimNumber,
        deliveries: &[Fence],
        kinds: Option<&[String]>,
    ) -> Result<Vec<Job>> {
        self.0.claim_delivered(node, claim, deliveries, kinds).await
    }

    async fn suspects(&self, queues: &[String], kinds: Option<&[String]>, limit: usize) -> Result<Vec<Suspect>> {
        self.0.suspects(queues, kinds, limit).await
    }

    async fn acquit(&self, ids: &[JobId]) -> Result<Acquitted> {
        self.0.acquit(ids).await
    }

    async fn release_unknown(&self, node: NodeId, known: &[Fence], before: Option<ClaimNumber>) -> Result<u64> {
        self.0.release_unknown(node, known, before).await
    }

    async fn release_claimed(&self, node: NodeId, claim: ClaimNumber, ids: &[JobId]) -> Result<u64> {
        self.0.release_claimed(node, claim, ids).await
    }
}

#[async_trait]
impl Outcomes for Sqlite {
    async fn complete(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<JobId>> {
        self.0.complete(node, fences).await
    }

    async fn settle(&self, node: NodeId, settlements: &[Settlement]) -> Result<Vec<JobId>> {
        self.0.settle(node, settlements).await
    }

    async fn put_off(&self, node: NodeId, fence: Fence, by: Duration) -> Result<()> {
        self.0.put_off(node, fence, by).await
    }

    async fn handlers_ended(&self, node: NodeId, fences: &[Fence]) -> Result<u64> {
        self.0.handlers_ended(node, fences).await
    }

    async fn stale_claims(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<Fence>> {
        self.0.stale_claims(node, fences).await
    }

    async fn record_progress(&self, node: NodeId, fence: Fence, update: &ProgressUpdate) -> Result<bool> {
        self.0.record_progress(node, fence, update).await
    }

    async fn progress(&self, id: JobId) -> Result<Option<JobProgress>> {
        self.0.progress(id).await
    }
}

#[async_trait]
impl Nodes for Sqlite {
    async fn register_node(&self, node: &NodeInfo) -> Result<NodeId> {
        self.0.register_node(node).await
    }

    async fn heartbeat(&self, node: NodeId) -> Result<bool> {
        self.0.heartbeat(node).await
    }

    /// Returns `None`: there is only one file, and no failover that could lose commits.
    async fn identity(&self) -> Result<Option<ServerIdentity>> {
        Ok(None)
    }

    async fn retire_node(&self, node: NodeId) -> Result<u64> {
        self.0.retire_node(node).await
    }

    async fn detached(&self) -> Result<Arc<dyn Nodes>> {
        let Shared { place, identity, call_timeout, connect_timeout, history, .. } = &*self.0;
        let same = Some((place.clone(), *identity));
        let path = place.path().to_owned();
        Ok(Arc::new(
            Sqlite::open_path(path, same, Access::Existing, *call_timeout, *connect_timeout, history.clone()).await?,
        ))
    }

    fn reconnect(&self) {}

    async fn report_broker(&self, node: NodeId, mode: Option<&str>) -> Result<()> {
        self.0.report_broker(node, mode).await
    }

    async fn report_left_alone(&self, node: NodeId, kinds: Option<&str>) -> Result<()> {
        self.0.report_left_alone(node, kinds).await
    }

    async fn node_heartbeats(&self) -> Result<Vec<NodeHeartbeat>> {
        self.0.node_heartbeats().await
    }

    async fn declare_dead(&self, silent: &[NodeHeartbeat]) -> Result<Vec<NodeId>> {
        self.0.declare_dead(silent).await
    }

    async fn release_lost(&self, limit: usize, quarantine: Option<NonZeroU32>) -> Result<Released> {
        self.0.release_lost(limit, quarantine).await
    }
}

#[async_trait]
impl Maintenance for Sqlite {
    /// Reports everything as possibly due: the separate checks only read the file, which costs no round trip.
    async fn maintenance_due(&self, _: Duration) -> Result<MaintenanceDue> {
        Ok(MaintenanceDue { now: Some(Timestamp::now()), ..MaintenanceDue::ANY })
    }

    async fn promote_due(&self, limit: usize) -> Result<Promoted> {
        self.0.promote_due(limit).await
    }

    async fn expire_jobs(&self, limit: usize) -> Result<Expired> {
        self.0.expire_jobs(limit).await
    }

    async fn admit(&self, request: &AdmitRequest<'_>) -> Result<Admitted> {
        self.0.admit(request).await
    }

    async fn age_jobs(&self, limit: usize) -> Result<u64> {
        self.0.age_jobs(limit).await
    }

    async fn reconcile(&self, before: &Reconciled) -> Result<Reconciled> {
        self.0.reconcile(before).await
    }

    async fn repair_clock(&self) -> Result<Vec<SkewedRows>> {
        self.0.repair_clock().await
    }

    async fn prune_history(&self, age: Duration, limit: usize) -> Result<u64> {
        self.0.prune_history(age, limit).await
    }

    async fn prune_results(&self, limit: usize) -> Result<u64> {
        self.0.prune_results(limit).await
    }

    async fn prune_progress(&self, limit: usize) -> Result<u64> {
        self.0.prune_progress(limit).await
    }

    async fn prune_submissions(&self, age: Duration, limit: usize) -> Result<u64> {
        self.0.prune_submissions(age, limit).await
    }

    async fn prune_rates(&self, limit: usize) -> Result<u64> {
        self.0.prune_rates(limit).await
    }

    async fn prune_dead_letters(&self, age: Duration, limit: usize) -> Result<u64> {
        self.0.prune_dead_letters(age, limit).await
    }

    async fn prune_audit(&self, age: Duration, limit: usize) -> Result<u64> {
        self.0.prune_audit(age, limit).await
    }
}

#[async_trait]
impl External for Sqlite {
    async fn hand_out(&self, queue: &str, limit: usize, lease: Duration, token: HandOutNumber) -> Result<Vec<Job>> {
        self.0.hand_out(queue, limit, lease, token).await
    }

    async fn report_key(&self) -> Result<ReportKey> {
        self.0.report_key().await
    }

    async fn take_back(&self, fences: &[Fence]) -> Result<u64> {
        self.0.take_back(fences).await
    }

    async fn complete_external(&self, done: &[ExternalDone]) -> Result<Completed> {
        self.0.complete_external(done).await
    }

    async fn handed_out(&self, fence: Fence) -> Result<Option<JobDetail>> {
        let found = self.0.show(fence.id).await?;
        Ok(found.filter(|detail| detail.summary.state == JobState::External && detail.version == fence.version))
    }

    async fn settle_external(&self, settlements: &[Settlement]) -> Result<Vec<JobId>> {
        self.0.settle_external(settlements).await
    }

    async fn extend_external(&self, extensions: &[Extension]) -> Result<Vec<JobId>> {
        self.0.extend_external(extensions).await
    }

    async fn expire_external(&self, limit: usize) -> Result<Released> {
        self.0.expire_external(limit).await
    }
}

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
        self.0.list(filter, page).await
    }

    async fn show(&self, id: JobId) -> Result<Option<JobDetail>> {
        self.0.show(id).await
    }

    async fn dead_letter_groups(&self, filter: &JobFilter, limit: usize) -> Result<DeadLetterGroups> {
        self.0.dead_letter_groups(filter, limit).await
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
        self.0.permit_faults().await
    }

    async fn overdue_unblocks(&self) -> Result<AdmissionLag> {
        self.0.overdue_unblocks().await
    }

    async fn clock_skew(&self) -> Result<Vec<SkewedRows>> {
        self.0.clock_skew().await
    }

    async fn rule_faults(&self) -> Result<Vec<UnreadableRow>> {
        self.0.rule_faults().await
    }

    async fn schedule_faults(&self) -> Result<Vec<UnreadableRow>> {
        self.0.schedule_faults().await
    }
}
