//! Aging: raises the priority of jobs that have waited long.

use rusqlite::named_params;

use super::rows::{Micros, count};
use super::shared::Shared;
use crate::error::Result;
use crate::store::sections::section;

const SQL: &str = include_str!("aging.sql");
const AGING_QUEUES: &str = section(SQL, "aging_queues");
const AGE: &str = section(SQL, "age");

impl Shared {
    pub(super) async fn age_jobs(&self, limit: usize) -> Result<u64> {
        let tried = "raise jobs that have waited long";
        let queues = self
            .check(tried, |connection, _| {
                let mut statement = connection.prepare_cached(AGING_QUEUES)?;
                let queues = statement.query_map([], |row| Ok((row.get("queue")?, row.get("aging")?)))?;
                Ok(queues.collect::<rusqlite::Result<Vec<(String, Micros)>>>()?)
            })
            .await?;
        if queues.is_empty() {
            return Ok(0);
        }
        self.write(tried, move |connection, now| {
            let mut statement = connection.prepare_cached(AGE)?;
            let mut raised = 0;
            for (queue, aging) in queues {
                let params = named_params! { ":queue": queue, ":aging": aging, ":now": now, ":limit": count(limit) };
                raised += statement.execute(params)? as u64;
            }
            Ok(raised)
        })
        .await
    }
}
