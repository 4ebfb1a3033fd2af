//! Aging: raises the priority of jobs that have waited long.

use rusqlite::named_params;

use super::rows::{Micros, count};
use super::shared::Shared;
use crate::error::Result;

const AGING_QUEUES: &str = include_str!("sql/aging_queues.sql");
const AGE_WAITING: &str = include_str!("sql/age_waiting.sql");
const AGE_BLOCKED: &str = include_str!("sql/age_blocked.sql");

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
            let mut raised = 0;
            for (queue, aging) in queues {
                for sql in [AGE_WAITING, AGE_BLOCKED] {
                    let params =
                        named_params! { ":queue": queue, ":aging": aging, ":now": now, ":limit": count(limit) };
                    raised += connection.prepare_cached(sql)?.execute(params)? as u64;
                }
            }
            Ok(raised)
        })
        .await
    }
}
