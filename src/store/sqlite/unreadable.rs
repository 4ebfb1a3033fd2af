//! Rows that can't be read, because another program's SQL stored values that no job has. Each becomes a dead letter in the transaction that
//! claimed it, so that its queue goes on.

use rusqlite::{Connection, Row, Rows, named_params};

use super::error::Work;
use super::history::{Memory, SourceTable};
use super::job_columns::JobPositions;
use super::rows::{timestamp, with_error};
use crate::job::{AttemptError, Job, NodeId};
use crate::store::{HistoryOutcome, unreadable};

const ROW: &str = include_str!("sql/unreadable_row.sql");

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

    /// Makes the row a dead letter: `dead_letter` moves it, with this record of its errors.
    pub(super) fn dead_letter(
        &self,
        connection: &Connection,
        place: SourceTable,
        node: NodeId,
        memory: Memory,
        dead_letter: impl FnOnce(&str) -> rusqlite::Result<()>,
    ) -> Work<()> {
        // An error record that is not text is dropped. It is no reason to undo the claim that met it.
        let (attempt, errors): (u32, Option<String>) = connection
            .prepare_cached(&ROW.replace("{table}", place.table))?
            .query_row(named_params! { ":seq": self.seq }, |row| {
                Ok((row.get("attempt")?, row.get("errors").ok().flatten()))
            })?;
        let at = timestamp(memory.now)?;
        let error = AttemptError { attempt, at, node: node.0, error: self.why.clone(), detail: None };
        memory.remember(connection, place, self.seq, HistoryOutcome::Dead, Some(&self.why))?;
        Ok(dead_letter(&with_error(errors.as_deref(), error)?)?)
    }
}
