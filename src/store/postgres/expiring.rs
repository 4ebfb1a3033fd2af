//! Expires jobs whose time to live is over: see `store::expiring`.

use std::sync::Arc;
use std::time::Duration;

use super::rows;
use super::shared::Shared;
use crate::error::Result;
use crate::store::Expired;
use crate::store::expiring::EXPIRED;

pub(super) async fn expire_jobs(shared: &Arc<Shared>, limit: usize) -> Result<Expired> {
    let rows = shared
        .engine_once("remove expired jobs", &shared.sql.expire_jobs, &[&rows::count(limit.max(1)), &EXPIRED])
        .await?;
    let row = rows::single(&rows)?;
    let next: Option<i64> = rows::get(row, "next_us")?;
    Ok(Expired {
        jobs: rows::get::<i64>(row, "jobs")?.unsigned_abs(),
        next: next.map(|us| Duration::from_micros(us.max(0).unsigned_abs())),
    })
}
