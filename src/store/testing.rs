//! Functions that only tests of a store need; not part of the API.

use jiff::Timestamp;

use super::given_ids::{Differs, OtherJob, refuse};
use super::schedules::{Firing, ScheduleInfo};
use crate::error::Result;
use crate::job::{Job, JobMessage, Limits, NewJob, NewSchedule, ScheduleSpec};

/// Checks a job message as a context would.
///
/// # Errors
/// When the message is refused.
pub fn message(job: NewJob) -> Result<JobMessage> {
    job.validate(Limits::default())
}

/// Checks a schedule as an application's handle would.
///
/// # Errors
/// When the schedule is refused.
pub fn schedule(schedule: NewSchedule) -> Result<ScheduleSpec> {
    schedule.validate(Limits::default())
}

/// Returns what a node does that has read this schedule at `now`, with at most `most` jobs. `None`: the schedule is not due.
pub fn firing(info: &ScheduleInfo, now: Timestamp, most: usize) -> Option<Firing> {
    let due = info.next_at.filter(|at| *at <= now)?;
    Some(Firing::plan(info, due, now, (most, usize::MAX)))
}

/// Returns the job that a claim of this message returns, for a store outside this crate.
pub fn job(message: JobMessage, seq: i64, version: i64, attempt: u32, created_at: Timestamp) -> Job {
    let admitted = message.options.group.is_some();
    Job { admitted, ..Job::claimed(message, seq, version, attempt, created_at) }
}

/// Applies these schema changes behind those of this build, as a later build would, and gives them the next numbers.
///
/// # Errors
/// As for [`migrate`](super::engine::Operator::migrate).
pub async fn migrate_postgres(
    store: &super::Postgres,
    more: &[super::Migration],
) -> Result<Vec<super::MigrationStatus>> {
    store.migrate_with(more).await
}

/// Applies later schema changes to an embedded database, as [`migrate_postgres`] does.
///
/// # Errors
/// As for [`migrate`](super::engine::Operator::migrate).
#[cfg(feature = "sqlite")]
pub async fn migrate_sqlite(
    store: &super::sqlite::Sqlite,
    more: &[super::Migration],
) -> Result<Vec<super::MigrationStatus>> {
    store.migrate_with(more).await
}

/// Refuses messages whose id a job of another kind or queue has, as the databases do. Each message comes with the job that has its id.
///
/// # Errors
/// `Conflict` for such an id.
pub fn refuse_other_jobs<'a>(pairs: impl IntoIterator<Item = (&'a JobMessage, &'a JobMessage)>) -> Result<()> {
    let others = pairs.into_iter().filter_map(|(message, job)| {
        let differs = Differs::between(message, &job.kind, &job.queue, None)?;
        Some(OtherJob { id: message.id, differs })
    });
    refuse(&others.collect::<Vec<_>>())
}

/// Returns the statement of this name of the PostgreSQL store as it is sent by a program that keeps no history. It is empty if there is none.
pub fn postgres_statement(name: &str, schema: &str) -> String {
    let all = postgres_statements(schema, crate::config::Keep::Off);
    all.into_iter().find(|(known, ..)| known == name).map(|(_, sql, _)| sql).unwrap_or_default()
}

/// Returns all statements of the PostgreSQL store as they are sent, with their names and the types of their parameters.
pub fn postgres_statements(schema: &str, keep: crate::config::Keep) -> Vec<(String, String, Vec<String>)> {
    super::postgres::all_statements(schema, keep)
}
