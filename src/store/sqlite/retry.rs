//! Dead letters: why they died, and how they are retried.

use std::time::Duration;

use rusqlite::{Connection, named_params};

use super::error::Work;
use super::filter::Filter;
use super::rows::{Micros, count, job_id, micros, timestamp};
use super::shared::Shared;
use crate::error::Result;
use crate::store::dead_letter_groups::Grouping;
use crate::store::job_operations::Chunk;
use crate::store::sections::section;
use crate::store::{AffectedJobs, DeadLetterGroup, DeadLetterGroups, JobFilter, JobState, RetryOptions};

const SQL: &str = include_str!("retry.sql");
const CHOOSE: &str = section(SQL, "choose");
const FIRST: &str = section(SQL, "first");
const RETRY: &str = section(SQL, "retry");
const RETRY_LATER: &str = section(SQL, "retry_later");
const DEAD_LETTER_GROUPS: &str = section(SQL, "dead_letter_groups");
const NEWEST: &str = section(SQL, "newest");

impl Shared {
    pub(super) async fn dead_letter_groups(
        &self,
        filter: &JobFilter,
        newest: usize,
        limit: usize,
    ) -> Result<DeadLetterGroups> {
        let chosen = Filter::new(filter, &[JobState::Dead]);
        self.query("group dead letters", move |connection, _| {
            let mut grouping = Grouping::default();
            chosen.query(
                connection,
                (DEAD_LETTER_GROUPS, NEWEST),
                named_params! { ":limit": count(newest) },
                |row| {
                    let dead_at = timestamp(row.get("dead_at")?)?;
                    grouping.add(DeadLetterGroup {
                        kind: row.get("kind")?,
                        queue: row.get("queue")?,
                        error: row.get("reason")?,
                        count: 1,
                        first: dead_at,
                        last: dead_at,
                        example: job_id(row, "id")?,
                    });
                    Ok(())
                },
            )?;
            Ok(grouping.finish(newest, limit))
        })
        .await
    }
}

/// Counts the jobs that a retry would affect.
pub(super) fn would(chosen: &Filter, connection: &Connection, options: &RetryOptions) -> Work<AffectedJobs> {
    let Some(limit) = options.limit else { return chosen.count(connection) };
    let mut affected = AffectedJobs::default();
    for (_, state) in first(chosen, connection, i64::try_from(limit).unwrap_or(i64::MAX))? {
        *affected.0.entry(state.parse()?).or_default() += 1;
    }
    Ok(affected)
}

/// Retries the jobs: all at once, or spread over time.
pub(super) fn run(
    chosen: &Filter,
    connection: &Connection,
    part: &Chunk,
    spread: Duration,
    now: Micros,
) -> rusqlite::Result<()> {
    if spread.is_zero() {
        return chosen.execute(connection, RETRY, named_params! { ":now": now });
    }
    let step = micros(spread) as f64 / part.all.max(1) as f64;
    let mut later = connection.prepare_cached(RETRY_LATER)?;
    for (place, (seq, _)) in first(chosen, connection, -1)?.into_iter().enumerate() {
        let due = now.saturating_add((step * (part.before + place) as f64) as Micros);
        later.execute(named_params! { ":seq": seq, ":due_at": due })?;
    }
    Ok(())
}

/// Returns the `seq` and the state of the matching jobs, oldest first.
fn first(chosen: &Filter, connection: &Connection, limit: i64) -> rusqlite::Result<Vec<(i64, String)>> {
    let limit = named_params! { ":limit": limit };
    chosen.query(connection, (CHOOSE, FIRST), limit, |row| Ok((row.get("seq")?, row.get("state")?)))
}
