//! Checks whether maintenance work is due: see `store::maintenance`.

use std::sync::Arc;
use std::time::Duration;

use super::rows;
use super::shared::Shared;
use crate::error::Result;
use crate::store::{MaintenanceDue, Promoted};

pub(super) async fn maintenance_due(shared: &Arc<Shared>, ahead: Duration) -> Result<MaintenanceDue> {
    let rows = shared.engine("look for something to do", &shared.sql.maintenance_due, &[&rows::micros(ahead)]).await?;
    let row = rows::single(&rows)?;
    Ok(MaintenanceDue {
        timers: rows::get(row, "timers")?,
        expiry: rows::get(row, "expiry")?,
        admission: rows::get(row, "admission")?,
        schedules: rows::get(row, "schedules")?,
        external: rows::get(row, "external")?,
        now: rows::get(row, "now")?,
    })
}

pub(super) async fn promote_due(shared: &Arc<Shared>, limit: usize) -> Result<Promoted> {
    let rows = shared.engine("promote due timers", &shared.sql.promote, &[&rows::count(limit)]).await?;
    let row = rows::single(&rows)?;
    let jobs: i64 = rows::get(row, "jobs")?;
    let queues: Option<Vec<String>> = rows::get(row, "queues")?;
    let next: Option<i64> = rows::get(row, "next_us")?;
    Ok(Promoted {
        jobs: jobs.unsigned_abs(),
        queues: queues.unwrap_or_default(),
        blocked: rows::get(row, "blocked")?,
        next: next.map(|us| Duration::from_micros(us.max(0).unsigned_abs())),
    })
}
