//! Rows that can't be read, because another program's SQL stored values that no job has. Each becomes a dead letter in the transaction that
//! claimed it, so that its queue goes on.

use rusqlite::{Connection, Row, Rows, named_params};

use super::error::Work;
use super::history::Memory;
use super::job_columns::JobPositions;
use super::rows::{attempts, count, job_id, number, timestamp, with_error};
use super::settle::TakenRow;
use super::shared::Shared;
use crate::error::Result;
use crate::job::{AttemptError, Job, NodeId};
use crate::store::sections::section;
use crate::store::{HistoryOutcome, UnreadableJobs, unreadable};

const SQL: &str = include_str!("unreadable.sql");
const ROW: &str = section(SQL, "unreadable_row");
const JOBS: &str = section(SQL, "unreadable_jobs");

impl Shared {
    pub(super) async fn unreadable_jobs(&self) -> Result<UnreadableJobs> {
        self.query("look for unreadable jobs", |connection, _| {
            let values = named_params! { ":beginning": unreadable::BEGINNING, ":limit": count(unreadable::LOOKED_AT) };
            Ok(connection.prepare_cached(JOBS)?.query_row(values, |row| {
                let jobs = number(row, "jobs")?;
                let example = if jobs > 0 { Some(job_id(row, "example")?) } else { None };
                Ok(UnreadableJobs::new(jobs, number(row, "looked_at")?, example))
            })?)
        })
        .await
    }
}

/// A claimed row that can't be read.
pub(super) struct Unreadable {
    pub(super) seq: i64,
    /// For display.
    pub(super) why: String,
}

/// Splits claimed rows into jobs, best first, and unreadable ones.
pub(super) fn sort_out(columns: &JobPositions, rows: &mut Rows<'_>) -> rusqlite::Result<(Vec<Job>, Vec<Unreadable>)> {
    let (mut jobs, mut others) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        match columns.read(row) {
            Ok(job) => jobs.push(job),
            Err(error) => others.push(Unreadable::new(row, &error)?),
        }
    }
    jobs.sort_unstable_by_key(|job| (-i32::from(job.priority), job.seq));
    Ok((jobs, others))
}

impl Unreadable {
    fn new(row: &Row<'_>, error: &rusqlite::Error) -> rusqlite::Result<Self> {
        let seq = row.get("seq")?;
        let why = match error {
            rusqlite::Error::FromSqlConversionFailure(_, _, why) => unreadable::reason(&**why),
            error => unreadable::reason(error),
        };
        tracing::error!(seq, "{why}; the job becomes a dead letter");
        Ok(Self { seq, why })
    }

    /// Makes the row a dead letter. `node` is the one that claimed it, or `EXTERNAL_NODE`.
    pub(super) fn bury(&self, connection: &Connection, node: NodeId, memory: Memory) -> Work<()> {
        // An error record that is not text is dropped. It is no reason to undo the claim that met it.
        let row = connection.prepare_cached(ROW)?.query_row(named_params! { ":seq": self.seq }, |row| {
            let errors = row.get("errors").ok().flatten();
            let attempt = attempts(row, "attempt")?;
            Ok(TakenRow {
                seq: self.seq,
                attempt,
                max_attempts: 0,
                errors,
                runs_alone: false,
                admitted: row.get("admitted")?,
            })
        })?;
        let at = timestamp(memory.now)?;
        let error = AttemptError { attempt: row.attempt, at, node: node.0, error: self.why.clone(), detail: None };
        memory.remember(connection, self.seq, HistoryOutcome::Dead, Some(&self.why))?;
        let errors = with_error(row.errors.as_deref(), error)?;
        Ok(row.bury(connection, Some(&errors), &self.why, memory.now)?)
    }
}
