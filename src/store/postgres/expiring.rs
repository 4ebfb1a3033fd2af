//! Expires jobs whose time to live is over: see `store::expiring`.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;

use super::around::{forget, may_be_of_rows};
use super::idle_timers::{self, IdleTimer};
use super::parts::{Parts, turned};
use super::rows;
use super::shared::Shared;
use super::unreadable::{Found, NO_NODE, bury, dead_letter_idle, refusal};
use crate::error::{Error, Result};
use crate::store::Expired;
use crate::store::expiring::EXPIRED;

const REMOVE: &str = "remove expired jobs";

pub(super) async fn expire_jobs(shared: &Arc<Shared>, limit: usize) -> Result<Expired> {
    let jobs = expire_waiting(shared, rows::count(limit.max(1))).await;
    // Whatever keeps the ones must not keep the others.
    forget(shared, "forget unique keys whose period is over", &shared.sql.expire_keys, &[], limit.max(1)).await?;
    jobs
}

async fn expire_waiting(shared: &Arc<Shared>, limit: i64) -> Result<Expired> {
    match shared.engine_once(REMOVE, &shared.sql.expire_jobs, &[&limit, &EXPIRED]).await {
        Ok(rows) => expired(&rows),
        Err(error) if refusal(&error).is_some() || may_be_of_rows(&error) => {
            expire_in_parts(shared, limit, error).await
        }
        Err(error) => Err(error),
    }
}

fn expired(rows: &[Row]) -> Result<Expired> {
    let row = rows::single(rows)?;
    let next: Option<i64> = rows::get(row, "next_us")?;
    Ok(Expired {
        jobs: rows::get::<i64>(row, "jobs")?.unsigned_abs(),
        next: next.map(|us| Duration::from_micros(us.max(0).unsigned_abs())),
    })
}

/// Makes dead letters of expired jobs of which some made the whole statement fail. Those whose values are at fault are cut to what fits.
async fn expire_in_parts(shared: &Arc<Shared>, limit: i64, error: Error) -> Result<Expired> {
    let rows = shared.engine("look for expired jobs", &shared.sql.expired, &[&limit]).await?;
    let is_timer = |row: &&Row| matches!(rows::get::<bool>(row, "is_timer"), Ok(true));
    let (timers, waiting): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(is_timer);
    let waiting = turned(&waiting.into_iter().map(Found::read).collect::<Result<Vec<_>>>()?);
    let timers = turned(&timers.into_iter().map(IdleTimer::read).collect::<Result<Vec<_>>>()?);
    let mut jobs = 0;
    let mut of_waiting = Parts::of(shared, REMOVE, &waiting);
    while let Some(part) = of_waiting.next() {
        match bury(shared, NO_NODE, 0, part, EXPIRED).await {
            Ok(gone) => jobs += gone,
            Err(error) => {
                if let Some((one, why)) = of_waiting.failed(part, error)? {
                    jobs += usize::from(of_waiting.buried(one, dead_letter_idle(shared, one, &why).await)?);
                }
            }
        }
    }
    let mut of_timers = Parts::of(shared, REMOVE, &timers);
    while let Some(part) = of_timers.next() {
        match idle_timers::bury(shared, part, EXPIRED).await {
            Ok(gone) => jobs += gone,
            Err(error) => {
                if let Some((one, why)) = of_timers.failed(part, error)? {
                    jobs += usize::from(of_timers.buried(one, one.dead_letter(shared, &why).await)?);
                }
            }
        }
    }
    let jobs = jobs as u64;
    if jobs > 0 {
        // There may be more, and nothing is known of the others.
        return Ok(Expired { jobs, next: Some(Duration::ZERO) });
    }
    match of_waiting.left.or(of_timers.left) {
        // They are tried again at the next poll.
        Some(_) => Ok(Expired { jobs, next: None }),
        None => Err(error),
    }
}
