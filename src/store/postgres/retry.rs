//! Dead letters: why they died, and how they are retried.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::engine_transaction::EngineTransaction;
use super::filter::{Filter, affected};
use super::rows;
use super::shared::Shared;
use crate::error::Result;
use crate::job::JobId;
use crate::store::dead_letter_groups::{Grouping, SCANNED};
use crate::store::job_operations::Chunk;
use crate::store::{AffectedJobs, DeadLetterGroup, DeadLetterGroups, JobFilter, RetryOptions};

/// Counts the jobs that a retry would affect.
pub(super) async fn count(shared: &Arc<Shared>, filter: &JobFilter, options: &RetryOptions) -> Result<AffectedJobs> {
    let filter = Filter::from(filter);
    let states = ["dead", "timer"].as_slice();
    let rows = match limit(options) {
        None => shared.engine_filtered("count jobs", &shared.sql.count, &filter.params(&[&states])).await?,
        limit => {
            shared.engine_filtered("count jobs", &shared.sql.count_some, &filter.params(&[&states, &limit])).await?
        }
    };
    affected(&rows)
}

/// Retries the jobs: all at once, or spread over time.
pub(super) async fn run(
    shared: &Arc<Shared>,
    batch: &EngineTransaction,
    part: &Chunk,
    spread: Duration,
) -> Result<AffectedJobs> {
    let (filter, sql) = (Filter::from(&part.filter), &shared.sql);
    if spread.is_zero() {
        return affected(&batch.query(&sql.retry, &filter.params(&[])).await?);
    }
    let (spread, before, all) = (rows::micros(spread), rows::count(part.before), rows::count(part.all.max(1)));
    affected(&batch.query(&sql.retry_spread, &filter.params(&[&spread, &before, &all])).await?)
}

/// Returns the highest number of jobs to retry.
pub(super) fn limit(options: &RetryOptions) -> Option<i64> {
    options.limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX))
}

pub(super) async fn dead_letter_groups(
    shared: &Arc<Shared>,
    filter: &JobFilter,
    limit: usize,
) -> Result<DeadLetterGroups> {
    let filter = Filter::from(filter);
    let scanned = rows::count(SCANNED);
    let rows = shared
        .engine_filtered("group dead letters", &shared.sql.dead_letter_groups, &filter.params(&[&scanned]))
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
    Ok(grouping.finish(limit))
}
