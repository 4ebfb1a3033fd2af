//! Dead letters: what they died of, and how they run again.

use std::sync::Arc;

use uuid::Uuid;

use super::admin::{Filter, steered};
use super::{Shared, hints, rows};
use crate::error::Result;
use crate::job::JobId;
use crate::store::groups::{Grouping, SCANNED};
use crate::store::{DeadGroup, DeadGroups, Hint, JobFilter, RetryOptions, Steered};

pub(super) async fn retry(shared: &Arc<Shared>, filter: &JobFilter, options: &RetryOptions) -> Result<Steered> {
    let RetryOptions { dry_run, limit, spread } = *options;
    let filter = Filter::from(filter);
    let limit = limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let (spread, sql) = (rows::micros(spread), &shared.sql);
    if dry_run {
        let states = ["dead", "timer"].as_slice();
        let rows = match limit {
            Some(_) => shared.engine("count jobs", &sql.count_some, &filter.params(&[&states, &limit])).await?,
            None => shared.engine("count jobs", &sql.count, &filter.params(&[&states])).await?,
        };
        return steered(&rows);
    }
    let rows = if limit.is_none() && spread == 0 {
        shared.engine_once("retry jobs", &sql.retry, &filter.params(&[])).await?
    } else {
        shared.engine_once("retry jobs", &sql.retry_some, &filter.params(&[&limit, &spread])).await?
    };
    if let Err(error) = hints::notify(shared, &[Hint::Any]).await {
        tracing::debug!(%error, "executors were not woken; they will find the jobs when they poll");
    }
    steered(&rows)
}

pub(super) async fn dead_groups(shared: &Arc<Shared>, filter: &JobFilter, limit: usize) -> Result<DeadGroups> {
    let filter = Filter::from(filter);
    let scanned = rows::count(SCANNED);
    let rows = shared.engine("group dead letters", &shared.sql.dead_groups, &filter.params(&[&scanned])).await?;
    let mut grouping = Grouping::default();
    for row in &rows {
        grouping.add(DeadGroup {
            kind: rows::get(row, 0)?,
            queue: rows::get(row, 1)?,
            error: rows::get(row, 2)?,
            count: rows::get::<i64>(row, 3)?.unsigned_abs(),
            first: rows::get(row, 4)?,
            last: rows::get(row, 5)?,
            example: JobId::from(rows::get::<Uuid>(row, 6)?),
        });
    }
    Ok(grouping.finish(limit))
}
