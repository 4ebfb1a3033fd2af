//! Checks whether maintenance work is due: see `store::maintenance`.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;
use uuid::Uuid;

use super::around::may_be_of_rows;
use super::aside::in_parts;
use super::client::Params;
use super::halves::Halves;
use super::idle_timers::{IdleTimer, ids};
use super::rows;
use super::shared::Shared;
use super::unreadable::refusal;
use crate::error::{Error, Result};
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
        suspects: rows::get(row, "suspects")?,
        now: rows::get(row, "now")?,
    })
}

pub(super) async fn promote_due(shared: &Arc<Shared>, limit: usize) -> Result<Promoted> {
    match shared.engine("promote due timers", &shared.sql.promote, &[&rows::count(limit)]).await {
        Ok(rows) => promoted(&rows),
        Err(error) if refusal(&error).is_some() => promote_in_halves(shared, limit, error).await,
        Err(error) if may_be_of_rows(&error) => promote_around(shared, limit).await,
        Err(error) => Err(error),
    }
}

/// Moves due timers, but for those that can't be moved for now.
async fn promote_around(shared: &Arc<Shared>, limit: usize) -> Result<Promoted> {
    let due = shared.engine("look for due timers", &shared.sql.due_timers, &[&rows::count(limit)]).await?;
    let due = due.iter().map(|row| rows::get(row, "id")).collect::<Result<Vec<Uuid>>>()?;
    let statement: (_, Params<'_>) = (&shared.sql.promote, &[&rows::count(limit)]);
    let mut all = Promoted::default();
    for answer in in_parts(shared, "promote due timers", statement, &due).await? {
        let part = promoted(&answer)?;
        all.jobs += part.jobs;
        all.queues.extend(part.queues);
        all.blocked |= part.blocked;
    }
    Ok(all)
}

/// Moves due timers of which some made the whole statement fail: these become dead letters.
async fn promote_in_halves(shared: &Arc<Shared>, limit: usize, error: Error) -> Result<Promoted> {
    let due = shared.engine("look for due timers", &shared.sql.due_timers, &[&rows::count(limit)]).await?;
    let due = due.iter().map(IdleTimer::read).collect::<Result<Vec<_>>>()?;
    let mut halves = Halves::of(&due, shared.call_timeout);
    let (mut all, mut removed) = (Promoted::default(), false);
    while let Some(part) = halves.next() {
        match shared.engine("promote due timers", &shared.sql.promote_named, &[&ids(part)]).await {
            Ok(rows) => {
                let some = promoted(&rows)?;
                all.jobs += some.jobs;
                all.queues.extend(some.queues);
                all.blocked |= some.blocked;
            }
            Err(error) => {
                let why = refusal(&error).ok_or(error)?;
                if let Some(one) = halves.failed(part) {
                    removed |= one.dead_letter(shared, &why).await?;
                }
            }
        }
    }
    // There may be more, and nothing is known of the others.
    all.next = Some(Duration::ZERO);
    if removed || all.jobs > 0 { Ok(all) } else { Err(error) }
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
