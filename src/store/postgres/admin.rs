//! What operators see of jobs: lists and details.

use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::filter::Filter;
use super::rows;
use super::shared::Shared;
use super::unreadable::refusal;
use crate::error::Result;
use crate::job::{Fence, JobId, NodeId, Payload};
use crate::store::{JobDetail, JobFilter, JobSummary, Page};

pub(super) async fn list(shared: &Arc<Shared>, filter: &JobFilter, page: &Page) -> Result<Vec<JobSummary>> {
    let filter = Filter::from(filter);
    // Nothing has a number beyond the last one. A page that began with that again would never be the last.
    let first = match page.after {
        None => i64::MIN,
        Some(i64::MAX) => return Ok(Vec::new()),
        Some(after) => after + 1,
    };
    let limit = rows::count(page.limit);
    let sql = &shared.sql;
    // An index finds ids; anything else is read in the order of the page.
    let statement = if filter.ids.is_some() { &sql.list_ids } else { &sql.list };
    let rows = shared.engine_filtered("list jobs", statement, &filter.params(&[&first, &limit])).await?;
    rows.iter().map(summary).collect()
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

pub(super) async fn show(shared: &Arc<Shared>, id: JobId) -> Result<Option<JobDetail>> {
    let mut missing = None;
    let rows = match shared.engine("show a job", &shared.sql.show, &[id.as_uuid()]).await {
        Ok(rows) => rows,
        // The payload can't be read, but the rest of the job is worth showing.
        Err(error) => {
            missing = refusal(&error);
            if missing.is_none() {
                return Err(error);
            }
            shared.engine("show a job", &shared.sql.show_bare, &[id.as_uuid()]).await?
        }
    };
    rows.first().map(|row| detail(row, missing)).transpose()
}

pub(super) async fn handed_out(shared: &Arc<Shared>, fence: Fence) -> Result<Option<JobDetail>> {
    let params: [&(dyn ToSql + Sync); 2] = [fence.id.as_uuid(), &fence.version];
    let rows = shared.engine("read a job that was handed out", &shared.sql.show_external, &params).await?;
    rows.first().map(|row| detail(row, None)).transpose()
}

/// Reads a row, whose payload may be missing for a reason.
fn detail(row: &Row, missing: Option<String>) -> Result<JobDetail> {
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
