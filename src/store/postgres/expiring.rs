//! Expires jobs whose time to live is over: see `store::expiring`.

use std::time::Duration;

use async_trait::async_trait;

use super::{Postgres, rows};
use crate::error::Result;
use crate::store::expiring::EXPIRED;
use crate::store::{Expired, Expiring};

#[async_trait]
impl Expiring for Postgres {
    async fn expire_jobs(&self, limit: usize) -> Result<Expired> {
        let shared = &self.0;
        let rows = shared
            .engine_once("remove expired jobs", &shared.sql.expire_jobs, &[&rows::count(limit.max(1)), &EXPIRED])
            .await?;
        let row = rows::single(&rows)?;
        let next: Option<i64> = rows::get(row, 1)?;
        Ok(Expired {
            jobs: rows::get::<i64>(row, 0)?.unsigned_abs(),
            next: next.map(|us| Duration::from_micros(us.max(0).unsigned_abs())),
        })
    }
}
