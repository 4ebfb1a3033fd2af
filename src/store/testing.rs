//! What the tests of a store need and nobody else: not part of the API.

use jiff::Timestamp;

use super::schedules::{Firing, ScheduleInfo};
use crate::error::Result;
use crate::job::{Job, JobMessage, Limits, NewJob, NewSchedule, RowPlace, ScheduleSpec};

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

/// What a node that has read this schedule at `now` is about to do, with at most so many jobs; `None`: nothing.
pub fn firing(info: &ScheduleInfo, now: Timestamp, most: usize) -> Option<Firing> {
    let due = info.next_at.filter(|at| *at <= now)?;
    Some(Firing::plan(info, due, now, (most, usize::MAX)))
}

/// What a claim of this message hands out: for a store outside this crate.
pub fn job(message: JobMessage, seq: i64, version: i64, attempt: u32, created_at: Timestamp) -> Job {
    let JobMessage { id, kind, queue, priority, max_attempts, payload, headers, terms, .. } = message;
    let admitted = terms.group.is_some();
    Job {
        id,
        seq,
        version,
        kind,
        queue,
        priority,
        attempt,
        max_attempts,
        payload,
        headers,
        terms,
        admitted,
        created_at,
        place: RowPlace::default(),
    }
}

/// A statement of the PostgreSQL store as it is sent, for tests that look at its plan.
pub fn postgres_statement(sql: &str, schema: &str) -> String {
    super::postgres::rendered(sql, schema)
}

/// All statements of the PostgreSQL store as they are sent, with their names and the types of their parameters.
pub fn postgres_statements(schema: &str, keep: crate::config::Keep) -> Vec<(String, String, Vec<String>)> {
    super::postgres::all_statements(schema, keep)
}
