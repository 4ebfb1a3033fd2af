//! Checks whether maintenance work is due: see `store::maintenance`.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;

use super::around::may_be_of_rows;
use super::idle_timers::{IdleTimer, ids};
use super::parts::{Parts, turned};
use super::rows;
use super::shared::Shared;
use super::unreadable::refusal;
use crate::error::{Error, Result};
use crate::store::{MaintenanceDue, Promoted};

const PROMOTE: &str = "promote due timers";

pub(super) async fn maintenance_due(shared: &Arc<Shared>, ahead: Duration) -> Result<MaintenanceDue> {
    let rows = shared.engine("look for something to do", &shared.sql.maintenance_due, &[&rows::micros(ahead)]).await?;
    let row = rows::single(&rows)?;
    Ok(MaintenanceDue {
        timers: rows::get(row, "timers")?,
        expiry: rows::get(row, "expiry")?,
        admission: rows::get(row, "admission")?,
        schedules: rows::get(row, "schedules")?,
        external: rows::get(row, "external")?,
        suspects: rows::get(row, "suspects")?,
        now: rows::get(row, "now")?,
    })
}

pub(super) async fn promote_due(shared: &Arc<Shared>, limit: usize) -> Result<Promoted> {
    match shared.engine(PROMOTE, &shared.sql.promote, &[&rows::count(limit)]).await {
        Ok(rows) => promoted(&rows),
        Err(error) if refusal(&error).is_some() || may_be_of_rows(&error) => {
            promote_in_parts(shared, limit, error).await
        }
        Err(error) => Err(error),
    }
}

/// Moves due timers of which some made the whole statement fail. Those whose values are at fault become dead letters.
async fn promote_in_parts(shared: &Arc<Shared>, limit: usize, error: Error) -> Result<Promoted> {
    let due = shared.engine("look for due timers", &shared.sql.due_timers, &[&rows::count(limit)]).await?;
    let due = turned(&due.iter().map(IdleTimer::read).collect::<Result<Vec<_>>>()?);
    let (mut all, mut removed) = (Promoted::default(), false);
    let mut parts = Parts::of(shared, PROMOTE, &due);
    while let Some(part) = parts.next() {
        match shared.engine(PROMOTE, &shared.sql.promote_named, &[&ids(part)]).await {
            Ok(rows) => {
                let some = promoted(&rows)?;
                all.jobs += some.jobs;
                all.queues.extend(some.queues);
                all.blocked |= some.blocked;
                all.next = some.next;
            }
            Err(error) => {
                if let Some((one, why)) = parts.failed(part, error)? {
                    removed |= parts.buried(one, one.dead_letter(shared, &why).await)?;
                }
            }
        }
    }
    if removed || all.jobs > 0 {
        // There may be more, and nothing is known of the others.
        all.next = Some(Duration::ZERO);
    } else if parts.left.is_none() {
        return Err(error);
    }
    Ok(all)
}

fn promoted(rows: &[Row]) -> Result<Promoted> {
    let row = rows::single(rows)?;
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
