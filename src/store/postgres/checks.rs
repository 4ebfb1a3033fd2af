//! Checks of the tables, for people: see `Admin::sampled_permit_faults` and its neighbours.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::shared::Shared;
use super::{clock, rows};
use crate::error::Result;
use crate::job::JobId;
use crate::store::admission::UNBLOCKS;
use crate::store::unreadable::{BEGINNING, LOOKED_AT};
use crate::store::{AdmissionLag, Count, OverdueWork, Sampled, SkewedRows, UnreadableJobs};

/// How many pages of a table are read at most where it is not read as a whole: 48 MiB.
pub(super) const PAGES: i64 = 6_000;
/// As many as no table has.
pub(super) const ALL_PAGES: i64 = 1 << 40;

/// The tables of which a check of permits reads samples.
const OF_PERMITS: [&str; 4] = ["job", "external_job", "permit", "unblock"];
/// Those of which a check of times does.
const OF_TIMES: [&str; 8] =
    ["job", "timer_job", "suspended_job", "external_job", "rate_log", "result", "progress", "unblock"];

pub(super) async fn permit_faults(shared: &Arc<Shared>, pages: i64) -> Result<Vec<String>> {
    let rows = shared.engine("check the permits", &shared.sql.permit_faults, &[&pages]).await?;
    rows.iter().map(|row| rows::get(row, 0)).collect()
}

pub(super) async fn sampled_permit_faults(shared: &Arc<Shared>) -> Result<Sampled<Vec<String>>> {
    let complete = whole(shared, &OF_PERMITS).await?;
    Ok(Sampled { found: permit_faults(shared, PAGES).await?, complete })
}

pub(super) async fn sampled_clock_skew(shared: &Arc<Shared>) -> Result<Sampled<Vec<SkewedRows>>> {
    let complete = whole(shared, &OF_TIMES).await?;
    Ok(Sampled { found: clock::clock_skew(shared, PAGES).await?, complete })
}

/// Returns whether a sample of each of these tables is the whole table.
async fn whole(shared: &Arc<Shared>, tables: &[&str]) -> Result<bool> {
    let rows = shared.engine("look how large tables are", &shared.sql.sampled_whole, &[&PAGES, &tables]).await?;
    rows::get(rows::single(&rows)?, "whole")
}

pub(super) async fn overdue_unblocks(shared: &Arc<Shared>) -> Result<AdmissionLag> {
    let limit = i64::try_from(UNBLOCKS).unwrap_or(i64::MAX);
    let rows = shared.engine("look for unblocked keys", &shared.sql.overdue_unblocks, &[&limit]).await?;
    let row = rows::single(&rows)?;
    let unblocks = rows::counted(row, "unblocks")?;
    Ok(AdmissionLag {
        unblocks: if unblocks < UNBLOCKS { Count::Exact(unblocks) } else { Count::AtLeast(unblocks) },
        longest: Duration::from_micros(rows::get::<i64>(row, "longest_us")?.max(0).unsigned_abs()),
    })
}

pub(super) async fn overdue_work(shared: &Arc<Shared>) -> Result<OverdueWork> {
    let rows = shared.engine("look for overdue work", &shared.sql.overdue_work, &[]).await?;
    let row = rows::single(&rows)?;
    let due = |column: &str| -> Result<Option<Duration>> {
        let late = rows::get::<Option<i64>>(row, column)?;
        Ok(late.filter(|late| *late >= 0).map(|late| Duration::from_micros(late.unsigned_abs())))
    };
    Ok(OverdueWork { timers: due("timers")?, expiry: due("expiry")?, external: due("external")? })
}

pub(super) async fn unreadable_jobs(shared: &Arc<Shared>) -> Result<UnreadableJobs> {
    let limit = rows::count(LOOKED_AT);
    let rows = shared.engine("look for unreadable jobs", &shared.sql.unreadable_jobs, &[&BEGINNING, &limit]).await?;
    let row = rows::single(&rows)?;
    let example = rows::get::<Option<Uuid>>(row, "example")?.map(JobId::from);
    Ok(UnreadableJobs::new(rows::counted(row, "jobs")?, rows::counted(row, "looked_at")?, example))
}
