//! Dead letters: why they died, and how they are retried.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, named_params};

use super::error::Work;
use super::filter::Filter;
use super::rows::{Micros, count, job_id, micros, timestamp};
use super::shared::Shared;
use super::statements::{Statement, statement};
use crate::error::Result;
use crate::store::dead_letter_groups::{Grouping, SCANNED};
use crate::store::job_operations::Chunk;
use crate::store::{AffectedJobs, DeadLetterGroup, DeadLetterGroups, JobFilter, JobState, RetryOptions};

const CHOSEN: &str = include_str!("sql/chosen.sql");
const REMOVE: &str = include_str!("sql/remove.sql");
static RETRY_COPY_DEAD: Statement = statement!("sql/retry_copy_dead.sql");
static RETRY_COPY_TIMER: Statement = statement!("sql/retry_copy_timer.sql");
const RETRY_REMOVE: &str = include_str!("sql/retry_remove.sql");
static RETRY_DEAD_TO_TIMER: Statement = statement!("sql/retry_dead_to_timer.sql");
const ADVANCE_TIMER: &str = include_str!("sql/advance_timer.sql");
const DEAD_LETTER_GROUPS: &str = include_str!("sql/dead_letter_groups.sql");

impl Shared {
    pub(super) async fn dead_letter_groups(&self, filter: &JobFilter, limit: usize) -> Result<DeadLetterGroups> {
        let chosen = Filter::new(filter, &[JobState::Dead]);
        self.query("group dead letters", move |connection, _| {
            let mut grouping = Grouping::default();
            for state in &chosen.states {
                let mut statement = connection.prepare_cached(&chosen.sql(DEAD_LETTER_GROUPS, *state))?;
                chosen.bind(&mut statement)?;
                if let Some(index) = statement.parameter_index(":limit")? {
                    statement.raw_bind_parameter(index, count(SCANNED))?;
                }
                let mut rows = statement.raw_query();
                while let Some(row) = rows.next()? {
                    let dead_at: Timestamp = timestamp(row.get("dead_at")?)?;
                    grouping.add(DeadLetterGroup {
                        kind: row.get("kind")?,
                        queue: row.get("queue")?,
                        error: row.get("reason")?,
                        count: 1,
                        first: dead_at,
                        last: dead_at,
                        example: job_id(row, "id")?,
                    });
                }
            }
            Ok(grouping.finish(limit))
        })
        .await
    }
}

/// Counts the jobs that a retry would affect.
pub(super) fn would(chosen: &Filter, connection: &Connection, options: &RetryOptions) -> Work<AffectedJobs> {
    match options.limit {
        None => chosen.count(connection),
        limit => Ok(affected(&first(chosen, connection, limit)?)),
    }
}

/// Retries the jobs: all at once, or spread over time.
pub(super) fn run(
    chosen: &Filter,
    connection: &Connection,
    part: &Chunk,
    spread: Duration,
    now: Micros,
) -> Work<AffectedJobs> {
    if spread.is_zero() {
        return chosen.operate(|state| {
            let copy = if state == JobState::Dead { &RETRY_COPY_DEAD } else { &RETRY_COPY_TIMER };
            chosen.execute(connection, copy, state)?;
            chosen.execute(connection, RETRY_REMOVE, state)
        });
    }
    let step = micros(spread) as f64 / part.all.max(1) as f64;
    let mut moved = Vec::new();
    for (place, row) in first(chosen, connection, None)?.into_iter().enumerate() {
        if later(connection, row, now.saturating_add((step * (part.before + place) as f64) as Micros))? {
            moved.push(row);
        }
    }
    Ok(affected(&moved))
}

/// A dead letter or a timer: its `seq` and its state.
type Row = (i64, JobState);

/// Returns the matching jobs, oldest first.
fn first(chosen: &Filter, connection: &Connection, limit: Option<u64>) -> Work<Vec<Row>> {
    let limit = limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let mut rows = Vec::new();
    for state in &chosen.states {
        let mut statement = connection.prepare_cached(&chosen.sql(CHOSEN, *state))?;
        chosen.bind(&mut statement)?;
        if let Some(index) = statement.parameter_index(":limit")? {
            statement.raw_bind_parameter(index, limit)?;
        }
        let mut found = statement.raw_query();
        while let Some(row) = found.next()? {
            rows.push((row.get(0)?, *state));
        }
    }
    rows.sort_unstable();
    rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(rows)
}

fn affected(rows: &[Row]) -> AffectedJobs {
    let mut affected = AffectedJobs::default();
    for (_, state) in rows {
        *affected.0.entry(*state).or_default() += 1;
    }
    affected
}

/// Schedules the retry of one job. A timer is never delayed by it.
fn later(connection: &Connection, (seq, state): Row, due: Micros) -> Work<bool> {
    let params = named_params! { ":seq": seq, ":due_at": due };
    if state != JobState::Dead {
        return Ok(connection.prepare_cached(ADVANCE_TIMER)?.execute(params)? == 1);
    }
    if connection.prepare_cached(&RETRY_DEAD_TO_TIMER)?.execute(params)? == 0 {
        return Ok(false);
    }
    let remove = REMOVE.replace("{filter}", "seq = :seq").replace("{table}", "jobwright_dead_letter_job");
    Ok(connection.prepare_cached(&remove)?.execute(named_params! { ":seq": seq })? == 1)
}
