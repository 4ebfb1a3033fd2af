//! Expires jobs whose time to live is over: see `store::expiring`.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;
use uuid::Uuid;

use super::around::may_be_of_rows;
use super::aside::in_parts;
use super::client::Params;
use super::halves::Halves;
use super::idle_timers::{self, IdleTimer};
use super::rows;
use super::shared::Shared;
use super::unreadable::{Found, NO_NODE, bury, dead_letter_idle, refusal};
use crate::error::{Error, Result};
use crate::store::Expired;
use crate::store::expiring::EXPIRED;

pub(super) async fn expire_jobs(shared: &Arc<Shared>, limit: usize) -> Result<Expired> {
    let limit = rows::count(limit.max(1));
    let rows = match shared.engine_once("remove expired jobs", &shared.sql.expire_jobs, &[&limit, &EXPIRED]).await {
        Err(error) if refusal(&error).is_some() => return expire_in_halves(shared, limit, error).await,
        Err(error) if may_be_of_rows(&error) => return expire_around(shared, limit).await,
        rows => rows?,
    };
    expired(&rows)
}

fn expired(rows: &[Row]) -> Result<Expired> {
    let row = rows::single(rows)?;
    let next: Option<i64> = rows::get(row, "next_us")?;
    Ok(Expired {
        jobs: rows::get::<i64>(row, "jobs")?.unsigned_abs(),
        next: next.map(|us| Duration::from_micros(us.max(0).unsigned_abs())),
    })
}

/// Makes dead letters of expired jobs, but for those that can't be moved for now.
async fn expire_around(shared: &Arc<Shared>, limit: i64) -> Result<Expired> {
    let found = shared.engine("look for expired jobs", &shared.sql.expired, &[&limit]).await?;
    let ids = found.iter().map(|row| rows::get(row, "id")).collect::<Result<Vec<Uuid>>>()?;
    let statement: (_, Params<'_>) = (&shared.sql.expire_jobs, &[&limit, &EXPIRED]);
    let mut jobs = 0;
    for answer in in_parts(shared, "remove expired jobs", statement, &ids).await? {
        jobs += expired(&answer)?.jobs;
    }
    // The rest is tried again at the next poll.
    Ok(Expired { jobs, next: None })
}

/// Makes dead letters of expired jobs of which some made the whole statement fail: those are cut to what fits.
async fn expire_in_halves(shared: &Arc<Shared>, limit: i64, error: Error) -> Result<Expired> {
    let rows = shared.engine("look for expired jobs", &shared.sql.expired, &[&limit]).await?;
    let is_timer = |row: &&Row| matches!(rows::get::<bool>(row, "is_timer"), Ok(true));
    let (timers, waiting): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(is_timer);
    let waiting = waiting.into_iter().map(Found::read).collect::<Result<Vec<_>>>()?;
    let timers = timers.into_iter().map(IdleTimer::read).collect::<Result<Vec<_>>>()?;
    let mut jobs = 0;
    let mut halves = Halves::of(&waiting, shared.call_timeout);
    while let Some(part) = halves.next() {
        match bury(shared, NO_NODE, 0, part, EXPIRED).await {
            Ok(gone) => jobs += gone,
            Err(error) => {
                let why = refusal(&error).ok_or(error)?;
                if let Some(one) = halves.failed(part) {
                    jobs += usize::from(dead_letter_idle(shared, *one, &why).await?);
                }
            }
        }
    }
    let mut halves = Halves::of(&timers, shared.call_timeout);
    while let Some(part) = halves.next() {
        match idle_timers::bury(shared, part, EXPIRED).await {
            Ok(gone) => jobs += gone,
            Err(error) => {
                let why = refusal(&error).ok_or(error)?;
                if let Some(one) = halves.failed(part) {
                    jobs += usize::from(one.dead_letter(shared, &why).await?);
                }
            }
        }
    }
    // There may be more, and nothing is known of the others.
    if jobs > 0 { Ok(Expired { jobs: jobs as u64, next: Some(Duration::ZERO) }) } else { Err(error) }
}
