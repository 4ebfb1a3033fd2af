//! Queues that are full: see `store::queue_capacity`.

use super::shared::Shared;
use rusqlite::{Connection, named_params};

use super::error::Work;
use super::statements::asks;
use crate::error::Result;
use crate::job::JobMessage;
use crate::store::FullQueue;
use crate::store::queue_capacity::{Depths, queues};
use crate::store::sections::section;

const SQL: &str = include_str!("queue_capacity.sql");
const HAS_DEPTH: &str = section(SQL, "has_depth");
const COUNT_WAITING: &str = section(SQL, "count_waiting");

impl Shared {
    pub(super) async fn full(&self, queues: &[&str]) -> Result<Vec<FullQueue>> {
        let queues: Vec<String> = queues.iter().map(ToString::to_string).collect();
        self.check("check whether queues are full", move |connection, _| {
            let queues: Vec<&str> = queues.iter().map(String::as_str).collect();
            full(connection, &queues)
        })
        .await
    }
}

/// Rejects messages for full queues, through the caller's own connection to the same file.
///
/// # Errors
/// [`Full`](crate::ErrorKind::Full), and SQLite's errors.
pub(crate) fn refuse_full(connection: &Connection, messages: &[JobMessage]) -> Result<()> {
    let found = full(connection, &queues(messages)).map_err(|failure| {
        let place = format!("sqlite:{}", connection.path().unwrap_or_default());
        failure.explain("check whether queues are full", &place)
    })?;
    found.first().map_or(Ok(()), |full| Err(full.error()))
}

fn full(connection: &Connection, queues: &[&str]) -> Work<Vec<FullQueue>> {
    if !asks(connection, HAS_DEPTH, &[])? {
        return Ok(Vec::new());
    }
    let depths = Depths::new(&super::rules::read(connection)?);
    let mut count = connection.prepare_cached(COUNT_WAITING)?;
    let mut found = Vec::new();
    for (queue, depth) in depths.of(queues) {
        let limit = i64::try_from(depth).unwrap_or(i64::MAX);
        let waiting: i64 = count.query_row(named_params! { ":queue": queue, ":limit": limit }, |row| row.get(0))?;
        if waiting >= limit {
            found.push(FullQueue { queue: queue.to_owned(), depth });
        }
    }
    Ok(found)
}
