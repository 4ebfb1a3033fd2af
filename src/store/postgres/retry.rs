//! Dead letters: what they died of, and how they run again.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::admin::{Filter, steered};
use super::batch::Batch;
use super::{Shared, rows};
use crate::error::Result;
use crate::job::JobId;
use crate::store::groups::{Grouping, SCANNED};
use crate::store::steering::Part;
use crate::store::{DeadGroup, DeadGroups, JobFilter, RetryOptions, Steered};

/// What a retry would touch.
pub(super) async fn count(shared: &Arc<Shared>, filter: &JobFilter, options: &RetryOptions) -> Result<Steered> {
    let filter = Filter::from(filter);
    let states = ["dead", "timer"].as_slice();
    let rows = match limit(options) {
        None => shared.engine_filtered("count jobs", &shared.sql.count, &filter.params(&[&states])).await?,
        limit => {
            shared.engine_filtered("count jobs", &shared.sql.count_some, &filter.params(&[&states, &limit])).await?
        }
    };
    steered(&rows)
}

/// Makes them run again: at once, or one after the other.
pub(super) async fn run(shared: &Arc<Shared>, batch: &Batch, part: &Part, spread: Duration) -> Result<Steered> {
    let (filter, sql) = (Filter::from(&part.filter), &shared.sql);
    if spread.is_zero() {
        return steered(&batch.query(&sql.retry, &filter.params(&[])).await?);
    }
    let (spread, before, all) = (rows::micros(spread), rows::count(part.before), rows::count(part.all.max(1)));
    steered(&batch.query(&sql.retry_spread, &filter.params(&[&spread, &before, &all])).await?)
}

/// How many at most.
pub(super) fn limit(options: &RetryOptions) -> Option<i64> {
    options.limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX))
}

pub(super) async fn dead_groups(shared: &Arc<Shared>, filter: &JobFilter, limit: usize) -> Result<DeadGroups> {
    let filter = Filter::from(filter);
    let scanned = rows::count(SCANNED);
    let rows =
        shared.engine_filtered("group dead letters", &shared.sql.dead_groups, &filter.params(&[&scanned])).await?;
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
