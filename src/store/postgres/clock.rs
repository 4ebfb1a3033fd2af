//! Repairs what a clock that ran ahead wrote: see `store::clock`.

use std::sync::Arc;
use std::time::Duration;

use super::rows;
use super::shared::Shared;
use super::unreadable::refusal;
use crate::error::Result;
use crate::job::LONGEST_LEASE;
use crate::store::clock::FARTHEST;
use crate::store::{MAX_HIDDEN, SkewedRows};

pub(super) async fn repair_clock(shared: &Arc<Shared>) -> Result<Vec<SkewedRows>> {
    let sql = &shared.sql;
    let (farthest, lease) = (rows::count(FARTHEST), rows::micros(LONGEST_LEASE));
    let mut found = Vec::new();
    for (what, statement, limit) in [
        ("unblock.unblock_at", &sql.repair_unblocks, None),
        ("rate_log.at", &sql.repair_rates, None),
        ("external_job.lease_until", &sql.repair_leases, Some(lease)),
        ("job.options.expires", &sql.repair_lives, Some(farthest)),
        ("timer_job.options.expires", &sql.repair_timer_lives, Some(farthest)),
        ("timer_job.due_at", &sql.repair_retries, Some(farthest)),
        ("unique_key.expires_at", &sql.repair_uniques, Some(farthest)),
    ] {
        // One call each, so that no statement waits for rows that another one has locked.
        let answer = match &limit {
            Some(limit) => shared.engine("repair timestamps that a wrong clock wrote", statement, &[limit]).await,
            None => shared.engine("repair timestamps that a wrong clock wrote", statement, &[]).await,
        };
        let answer = match answer {
            // A value that was written by hand keeps only its own column from being repaired.
            Err(error) if refusal(&error).is_some() => {
                tracing::warn!(what, %error, "timestamps that a wrong clock wrote here can't be repaired: a row has a value that makes no sense");
                continue;
            }
            answer => answer?,
        };
        let row = rows::single(&answer)?;
        found.extend(skewed_rows(what, rows::get(row, "n")?, rows::get(row, "far_us")?));
    }
    Ok(found)
}

/// Reads so many pages of each table, or all of them.
pub(super) async fn clock_skew(shared: &Arc<Shared>, pages: i64) -> Result<Vec<SkewedRows>> {
    let hold = rows::micros(MAX_HIDDEN);
    let found =
        shared.engine("look for timestamps ahead of the clock", &shared.sql.clock_skew, &[&hold, &pages]).await?;
    let mut all = Vec::with_capacity(found.len());
    for row in &found {
        all.extend(skewed_rows(rows::get(row, "what")?, rows::get(row, "n")?, rows::get(row, "far_us")?));
    }
    Ok(all)
}

fn skewed_rows(what: &str, rows: i64, farthest: i64) -> Option<SkewedRows> {
    let farthest = Duration::from_micros(farthest.max(0).unsigned_abs());
    (rows > 0).then(|| SkewedRows { what: what.to_owned(), rows: rows.unsigned_abs(), farthest })
}
