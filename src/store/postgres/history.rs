//! The history of ended jobs, and their results.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;
use uuid::Uuid;

use super::around::forget;
use super::rows;
use super::shared::Shared;
use crate::error::Result;
use crate::job::{JobId, NodeId};
use crate::store::{HistoryEntry, HistoryFilter, JobResult};

pub(super) async fn history(shared: &Arc<Shared>, filter: &HistoryFilter, limit: usize) -> Result<Vec<HistoryEntry>> {
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
    rows.iter().map(entry).collect()
}

pub(super) async fn prune_history(shared: &Arc<Shared>, age: Duration, limit: usize) -> Result<u64> {
    forget(shared, "prune the history", &shared.sql.prune_history, &[&rows::micros(age)], limit).await
}

pub(super) async fn prune_audit(shared: &Arc<Shared>, age: Duration, limit: usize) -> Result<u64> {
    forget(shared, "forget the old audit", &shared.sql.prune_audit, &[&rows::micros(age)], limit).await
}

pub(super) async fn prune_dead_letters(shared: &Arc<Shared>, age: Duration, limit: usize) -> Result<u64> {
    forget(shared, "remove old dead letters", &shared.sql.prune_dead_letters, &[&rows::micros(age)], limit).await
}

pub(super) async fn result(shared: &Arc<Shared>, id: JobId) -> Result<Option<JobResult>> {
    let rows = shared.engine("read the result of a job", &shared.sql.result, &[id.as_uuid()]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(JobResult {
        id,
        kind: rows::get(row, "kind")?,
        payload: rows::json_payload(row, "payload")?,
        created_at: rows::shown_time(row, "created_at")?,
        expires_at: rows::shown_time(row, "expires_at")?,
    }))
}

pub(super) async fn prune_results(shared: &Arc<Shared>, limit: usize) -> Result<u64> {
    forget(shared, "prune results", &shared.sql.prune_results, &[], limit).await
}

fn entry(row: &Row) -> Result<HistoryEntry> {
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
