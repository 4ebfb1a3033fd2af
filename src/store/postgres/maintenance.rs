//! Checks whether maintenance work is due: see `store::maintenance`.

use std::sync::Arc;
use std::time::Duration;

use super::{Shared, rows};
use crate::error::Result;
use crate::store::{MaintenanceDue, Promoted};

pub(super) async fn maintenance_due(shared: &Arc<Shared>, ahead: Duration) -> Result<MaintenanceDue> {
    let rows = shared.engine("look for something to do", &shared.sql.maintenance_due, &[&rows::micros(ahead)]).await?;
    let row = rows::single(&rows)?;
    Ok(MaintenanceDue {
        timers: rows::get(row, 0)?,
        expiry: rows::get(row, 1)?,
        admission: rows::get(row, 2)?,
        schedules: rows::get(row, 3)?,
        external: rows::get(row, 4)?,
        now: rows::get(row, 5)?,
    })
}

pub(super) async fn promote_due(shared: &Arc<Shared>, limit: usize) -> Result<Promoted> {
    let rows = shared.engine("promote due timers", &shared.sql.promote, &[&rows::count(limit)]).await?;
    let row = rows::single(&rows)?;
    let jobs: i64 = rows::get(row, 0)?;
    let queues: Option<Vec<String>> = rows::get(row, 1)?;
    let next: Option<i64> = rows::get(row, 2)?;
    Ok(Promoted {
        jobs: jobs.unsigned_abs(),
        queues: queues.unwrap_or_default(),
        blocked: rows::get(row, 3)?,
        next: next.map(|us| Duration::from_micros(us.max(0).unsigned_abs())),
    })
}
