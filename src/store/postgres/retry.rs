//! Retries of dead letters.

use std::sync::Arc;
use std::time::Duration;

use super::engine_transaction::EngineTransaction;
use super::filter::{Filter, affected};
use super::rows;
use super::shared::Shared;
use crate::error::Result;
use crate::store::job_operations::Chunk;
use crate::store::{AffectedJobs, JobFilter, RetryOptions};

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
