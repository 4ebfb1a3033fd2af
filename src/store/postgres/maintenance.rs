//! Checks whether maintenance work is due: see `store::maintenance`.

use std::time::Duration;

use async_trait::async_trait;

use super::{Postgres, rows};
use crate::error::Result;
use crate::store::{Maintenance, MaintenanceDue};

#[async_trait]
impl Maintenance for Postgres {
    async fn maintenance_due(&self, ahead: Duration) -> Result<MaintenanceDue> {
        let shared = &self.0;
        let rows =
            shared.engine("look for something to do", &shared.sql.maintenance_due, &[&rows::micros(ahead)]).await?;
        let row = rows::single(&rows)?;
        Ok(MaintenanceDue {
            timers: rows::get(row, 0)?,
            expiry: rows::get(row, 1)?,
            admission: rows::get(row, 2)?,
            schedules: rows::get(row, 3)?,
            external: rows::get(row, 4)?,
            now: rows::get(row, 5)?,
        })
    }
}
