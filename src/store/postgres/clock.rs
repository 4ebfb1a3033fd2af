//! What a clock that was ahead left behind: see `store::clock`.

use std::time::Duration;

use async_trait::async_trait;

use super::{Postgres, rows};
use crate::error::Result;
use crate::job::LONGEST_LEASE;
use crate::store::clock::FARTHEST;
use crate::store::{Ahead, Clock, LONGEST_HOLD};

#[async_trait]
impl Clock for Postgres {
    async fn set_right(&self) -> Result<Vec<Ahead>> {
        let (shared, sql) = (&self.0, &self.0.sql);
        let (farthest, lease) = (rows::count(FARTHEST), rows::micros(LONGEST_LEASE));
        let mut found = Vec::new();
        for (what, statement, limit) in [
            ("opening.opens_at", &sql.right_openings, None),
            ("rate_log.at", &sql.right_rates, None),
            ("external_job.lease_until", &sql.right_leases, Some(lease)),
            ("job.terms.expires", &sql.right_lives, Some(farthest)),
            ("timer_job.terms.expires", &sql.right_timer_lives, Some(farthest)),
            ("timer_job.due_at", &sql.right_retries, Some(farthest)),
            ("unique_key.expires_at", &sql.right_uniques, Some(farthest)),
        ] {
            // Each by itself: none has to wait for what another one has locked.
            let answer = match &limit {
                Some(limit) => shared.engine("set right what a wrong clock wrote", statement, &[limit]).await?,
                None => shared.engine("set right what a wrong clock wrote", statement, &[]).await?,
            };
            let row = rows::single(&answer)?;
            found.extend(ahead(what, rows::get(row, 0)?, rows::get(row, 1)?));
        }
        Ok(found)
    }

    async fn ahead_of_clock(&self) -> Result<Vec<Ahead>> {
        let shared = &self.0;
        let hold = rows::micros(LONGEST_HOLD);
        let found = shared.engine("look for what lies ahead of the clock", &shared.sql.ahead, &[&hold]).await?;
        let mut all = Vec::with_capacity(found.len());
        for row in &found {
            all.extend(ahead(rows::get(row, 0)?, rows::get(row, 1)?, rows::get(row, 2)?));
        }
        Ok(all)
    }
}

fn ahead(what: &str, rows: i64, farthest: i64) -> Option<Ahead> {
    let farthest = Duration::from_micros(farthest.max(0).unsigned_abs());
    (rows > 0).then(|| Ahead { what: what.to_owned(), rows: rows.unsigned_abs(), farthest })
}
