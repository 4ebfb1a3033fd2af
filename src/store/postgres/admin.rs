//! What operators see and do.

use async_trait::async_trait;
use tokio_postgres::Row;
use uuid::Uuid;

use super::client::Params;
use super::database::Postgres;
use super::filter::Filter;
use super::types::JsonText;
use super::unreadable::refusal;
use super::{
    checks, clock, installation, job_operations, kinds, migrate, rows, rules, schedules, sql_workers, status, vacuum,
    why,
};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobId, NodeId, Payload};
use crate::store::dead_letter_groups::Grouping;
use crate::store::{
    Action, AdmissionLag, Adoption, AffectedJobs, AuditEntry, AuditFilter, DeadLetterGroup, DeadLetterGroups,
    HistoryEntry, HistoryFilter, Installation, JobDetail, JobFilter, JobPosition, JobResult, JobState, JobSummary,
    KeyQuestion, KeyUse, MigrationStatus, Operator, OperatorOptions, OverdueWork, Page, Released, Rule, RuleEdit,
    Sampled, Scope, ServingNode, SkewedRows, SqlWorker, StatusReport, UnreadableJobs, UnreadableRow, VacuumStatus,
    WaitingClass, WaitingKinds,
};

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
        let filter = Filter::from(filter);
        // Nothing has a number beyond the last one. A page that began with that again would never be the last.
        let first = match page.after {
            None => i64::MIN,
            Some(i64::MAX) => return Ok(Vec::new()),
            Some(after) => after + 1,
        };
        let limit = rows::count(page.limit);
        let sql = &self.0.sql;
        // An index finds ids; anything else is read in the order of the page.
        let statement = if filter.ids.is_some() { &sql.list_ids } else { &sql.list };
        let rows = self.0.engine_filtered("list jobs", statement, &filter.params(&[&first, &limit])).await?;
        rows.iter().map(summary).collect()
    }

    async fn show(&self, id: JobId) -> Result<Option<JobDetail>> {
        let mut missing = None;
        let rows = match self.0.engine("show a job", &self.0.sql.show, &[id.as_uuid()]).await {
            Ok(rows) => rows,
            // The payload can't be read, but the rest of the job is worth showing.
            Err(error) => {
                missing = refusal(&error);
                if missing.is_none() {
                    return Err(error);
                }
                self.0.engine("show a job", &self.0.sql.show_bare, &[id.as_uuid()]).await?
            }
        };
        rows.first().map(|row| detail(row, missing)).transpose()
    }

    async fn job_state(&self, id: JobId) -> Result<Option<JobState>> {
        let rows = self.0.engine("look for a job", &self.0.sql.job_state, &[id.as_uuid()]).await?;
        rows.first().map(|row| rows::get::<&str>(row, "state")?.parse()).transpose()
    }

    async fn dead_letter_groups(&self, filter: &JobFilter, newest: usize, limit: usize) -> Result<DeadLetterGroups> {
        let shared = &self.0;
        let filter = Filter::from(filter);
        let read = rows::count(newest);
        let rows = shared
            .engine_filtered("group dead letters", &shared.sql.dead_letter_groups, &filter.params(&[&read]))
            .await?;
        let mut grouping = Grouping::default();
        for row in &rows {
            grouping.add(DeadLetterGroup {
                kind: rows::get(row, "kind")?,
                queue: rows::get(row, "queue")?,
                error: rows::get(row, "reason")?,
                count: rows::get::<i64>(row, "count")?.unsigned_abs(),
                first: rows::shown_time(row, "first")?,
                last: rows::shown_time(row, "last")?,
                example: JobId::from(rows::get::<Uuid>(row, "example")?),
            });
        }
        Ok(grouping.finish(newest, limit))
    }

    async fn history(&self, filter: &HistoryFilter, limit: usize) -> Result<Vec<HistoryEntry>> {
        let shared = &self.0;
        let HistoryFilter { id, queue, kind, outcomes, error, ended, behind } = filter;
        let (behind, seq) = behind.unzip();
        let id: Option<Uuid> = id.map(Into::into);
        let outcomes: Option<Vec<&str>> = outcomes.as_ref().map(|all| all.iter().map(|one| one.as_str()).collect());
        let [since, until] = [ended.since, ended.until].map(rows::moment);
        let rows = shared
            .engine_filtered(
                "read the history",
                &shared.sql.history,
                &[&id, queue, kind, &outcomes, error, &since, &until, &behind, &seq, &rows::count(limit)],
            )
            .await?;
        rows.iter().map(history_entry).collect()
    }

    async fn result(&self, id: JobId) -> Result<Option<JobResult>> {
        let rows = self.0.engine("read the result of a job", &self.0.sql.result, &[id.as_uuid()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(JobResult {
            id,
            kind: rows::get(row, "kind")?,
            payload: rows::json_payload(row, "payload")?,
            created_at: rows::shown_time(row, "created_at")?,
            expires_at: rows::shown_time(row, "expires_at")?,
        }))
    }

    async fn audit(&self, filter: &AuditFilter, limit: usize) -> Result<Vec<AuditEntry>> {
        let AuditFilter { who, action, before } = filter;
        let params: Params<'_> = &[before, who, action, &rows::count(limit)];
        self.0.engine_filtered("read the audit", &self.0.sql.audit, params).await?.iter().map(audit_entry).collect()
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
        checks::permit_faults(&self.0, checks::ALL_PAGES).await
    }

    async fn sampled_permit_faults(&self) -> Result<Sampled<Vec<String>>> {
        checks::sampled_permit_faults(&self.0).await
    }

    async fn overdue_work(&self) -> Result<OverdueWork> {
        checks::overdue_work(&self.0).await
    }

    async fn overdue_unblocks(&self) -> Result<AdmissionLag> {
        checks::overdue_unblocks(&self.0).await
    }

    async fn clock_skew(&self) -> Result<Vec<SkewedRows>> {
        clock::clock_skew(&self.0, checks::ALL_PAGES).await
    }

    async fn sampled_clock_skew(&self) -> Result<Sampled<Vec<SkewedRows>>> {
        checks::sampled_clock_skew(&self.0).await
    }

    async fn unreadable_jobs(&self) -> Result<UnreadableJobs> {
        checks::unreadable_jobs(&self.0).await
    }

    async fn position(&self, id: JobId) -> Result<JobPosition> {
        why::position(&self.0, id).await
    }

    async fn serving_nodes(&self) -> Result<Vec<ServingNode>> {
        why::serving_nodes(&self.0).await
    }

    async fn sql_workers(&self) -> Result<Vec<SqlWorker>> {
        sql_workers::all(&self.0).await
    }

    async fn key_uses(&self, keys: &[KeyQuestion]) -> Result<Vec<KeyUse>> {
        why::key_uses(&self.0, keys).await
    }

    async fn waiting_classes(&self, queue: Option<&str>, kind: Option<&str>) -> Result<Vec<WaitingClass>> {
        why::waiting_classes(&self.0, queue, kind).await
    }

    async fn waiting_kinds(&self, queues: &[&str]) -> Result<WaitingKinds> {
        kinds::waiting_kinds(&self.0, queues).await
    }

    async fn vacuum(&self) -> Result<Option<VacuumStatus>> {
        vacuum::vacuum(&self.0).await.map(Some)
    }

    async fn rule_faults(&self) -> Result<Vec<UnreadableRow>> {
        rules::rule_faults(&self.0).await
    }

    async fn schedule_faults(&self) -> Result<Vec<UnreadableRow>> {
        schedules::schedule_faults(&self.0).await
    }
}

fn summary(row: &Row) -> Result<JobSummary> {
    Ok(JobSummary {
        id: JobId::from(rows::get::<Uuid>(row, "id")?),
        seq: rows::get(row, "seq")?,
        state: rows::get::<&str>(row, "state")?.parse()?,
        kind: rows::get(row, "kind")?,
        queue: rows::get(row, "queue")?,
        priority: rows::get(row, "priority")?,
        attempt: rows::attempts(rows::get(row, "attempt")?),
        max_attempts: rows::attempts(rows::get(row, "max_attempts")?),
        created_at: rows::shown_time(row, "created_at")?,
        due_at: rows::some_time(row, "due_at")?,
        owner: rows::get::<Option<i64>>(row, "owner")?.map(NodeId),
        claimed_at: rows::some_time(row, "claimed_at")?,
        last_error: rows::get(row, "last_error")?,
    })
}

/// Reads a row, whose payload may be missing for a reason.
pub(super) fn detail(row: &Row, missing: Option<String>) -> Result<JobDetail> {
    let dead_at = rows::some_time(row, "dead_at")?;
    let reason: Option<String> = rows::get(row, "reason")?;
    Ok(JobDetail {
        summary: summary(row)?,
        version: rows::get(row, "version")?,
        dead: dead_at.map(|at| (at, reason.unwrap_or_default())),
        payload: missing
            .map_or_else(|| rows::payload(row, ["payload", "body", "content_type"]), |why| Ok(Payload::text(why)))?,
        headers: rows::headers(row, "headers")?,
        errors: rows::json(row, "errors")?,
        // This is for display only, so options that can't be read are left out. The reason of such a dead letter explains why.
        options: rows::options(row, "options").unwrap_or_default(),
        blocked_on: rows::get(row, "blocked_on")?,
    })
}

fn history_entry(row: &Row) -> Result<HistoryEntry> {
    Ok(HistoryEntry {
        id: JobId::from(rows::get::<Uuid>(row, "job_id")?),
        seq: rows::get(row, "seq")?,
        kind: rows::get(row, "kind")?,
        queue: rows::get(row, "queue")?,
        outcome: rows::get::<&str>(row, "outcome")?.parse()?,
        attempt: rows::attempts(rows::get(row, "attempt")?),
        created_at: rows::shown_time(row, "created_at")?,
        started_at: rows::some_time(row, "started_at")?,
        ended_at: rows::shown_time(row, "ended_at")?,
        node: rows::get::<Option<i64>>(row, "node")?.map(NodeId),
        tenant: rows::get(row, "tenant")?,
        error: rows::get(row, "error")?,
    })
}

fn audit_entry(row: &Row) -> Result<AuditEntry> {
    let json = |column| {
        let JsonText(text) = rows::get(row, column)?;
        serde_json::from_str(text)
            .map_err(|error| Error::new(ErrorKind::Database, "the server returned invalid JSON").with_source(error))
    };
    Ok(AuditEntry {
        id: rows::get(row, "id")?,
        at: rows::get(row, "at")?,
        who: rows::get(row, "who")?,
        action: rows::get(row, "action")?,
        what: json("what")?,
        counts: json("counts")?,
    })
}
