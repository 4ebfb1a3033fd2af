//! Repairs what a clock that ran ahead wrote: see `store::clock`.

use std::time::Duration;

use async_trait::async_trait;

use super::{Postgres, rows};
use crate::error::Result;
use crate::job::LONGEST_LEASE;
use crate::store::clock::FARTHEST;
use crate::store::{ClockRepair, MAX_HIDDEN, SkewedRows};

#[async_trait]
impl ClockRepair for Postgres {
    async fn repair_clock(&self) -> Result<Vec<SkewedRows>> {
        let (shared, sql) = (&self.0, &self.0.sql);
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
                Some(limit) => shared.engine("repaired what a wrong clock wrote", statement, &[limit]).await?,
                None => shared.engine("repaired what a wrong clock wrote", statement, &[]).await?,
            };
            let row = rows::single(&answer)?;
            found.extend(clock_skew(what, rows::get(row, 0)?, rows::get(row, 1)?));
        }
        Ok(found)
    }

    async fn clock_skew(&self) -> Result<Vec<SkewedRows>> {
        let shared = &self.0;
        let hold = rows::micros(MAX_HIDDEN);
        let found = shared.engine("look for what lies ahead of the clock", &shared.sql.clock_skew, &[&hold]).await?;
        let mut all = Vec::with_capacity(found.len());
        for row in &found {
            all.extend(clock_skew(rows::get(row, 0)?, rows::get(row, 1)?, rows::get(row, 2)?));
        }
        Ok(all)
    }
}

fn clock_skew(what: &str, rows: i64, farthest: i64) -> Option<SkewedRows> {
    let farthest = Duration::from_micros(farthest.max(0).unsigned_abs());
    (rows > 0).then(|| SkewedRows { what: what.to_owned(), rows: rows.unsigned_abs(), farthest })
}
