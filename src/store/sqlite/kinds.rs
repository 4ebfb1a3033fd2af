//! Waiting jobs by kind.

use rusqlite::{Row, named_params};

use super::rows::{Micros, count, number};
use super::shared::Shared;
use crate::error::Result;
use crate::store::sections::section;
use crate::store::{KindStatus, WaitingKinds};

const SQL: &str = include_str!("kinds.sql");
const OF_QUEUE: &str = section(SQL, "waiting_kinds");

impl Shared {
    pub(super) async fn waiting_kinds(&self, queues: &[&str]) -> Result<WaitingKinds> {
        let each = WaitingKinds::each(queues.len());
        let queues: Vec<String> = queues.iter().map(|queue| (*queue).to_owned()).collect();
        self.query("count jobs by kind", move |connection, now| {
            let mut statement = connection.prepare_cached(OF_QUEUE)?;
            let mut kinds = Vec::new();
            for queue in &queues {
                let read = |row: &Row<'_>| {
                    Ok(KindStatus {
                        queue: queue.clone(),
                        kind: row.get("kind")?,
                        waiting: number(row, "waiting")?,
                        oldest_waiting_seconds: ((now - row.get::<_, Micros>("oldest")?) as f64 / 1e6).max(0.0),
                    })
                };
                let found = statement.query_map(named_params! { ":queue": queue, ":each": count(each) }, read)?;
                for kind in found {
                    kinds.push(kind?);
                }
            }
            Ok(WaitingKinds::new(kinds, each))
        })
        .await
    }
}
