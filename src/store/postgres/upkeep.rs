//! Whether there is anything to do beside running jobs: see `store::upkeep`.

use std::time::Duration;

use async_trait::async_trait;

use super::{Postgres, rows};
use crate::error::Result;
use crate::store::{Upkeep, UpkeepDue};

#[async_trait]
impl Upkeep for Postgres {
    async fn upkeep(&self, ahead: Duration) -> Result<UpkeepDue> {
        let shared = &self.0;
        let rows = shared.engine("look for something to do", &shared.sql.upkeep, &[&rows::micros(ahead)]).await?;
        let row = rows::single(&rows)?;
        Ok(UpkeepDue {
            timers: rows::get(row, 0)?,
            expiry: rows::get(row, 1)?,
            gates: rows::get(row, 2)?,
            schedules: rows::get(row, 3)?,
            external: rows::get(row, 4)?,
            now: rows::get(row, 5)?,
        })
    }
}
