//! Rows that can't be read: somebody's own SQL wrote what no job has. Each becomes a dead letter in the transaction that met it, and its
//! queue goes on.

use rusqlite::{Connection, Row, Rows, named_params};

use super::failure::Work;
use super::history::{Memory, Place};
use super::rows::{job, timestamp, with_error};
use crate::job::{AttemptError, Job, NodeId};
use crate::store::{Ending, unreadable};

const ROW: &str = include_str!("sql/unreadable_row.sql");

/// A row that was taken and can't be read.
pub(super) struct Unreadable {
    pub(super) seq: i64,
    /// For people.
    pub(super) why: String,
}

/// Reads what was taken: jobs, best first, and what is none.
pub(super) fn sort_out(rows: &mut Rows<'_>) -> rusqlite::Result<(Vec<Job>, Vec<Unreadable>)> {
    let (mut jobs, mut others) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        match job(row) {
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

    /// Makes it a dead letter: `bury` moves the row, with this record of its errors.
    pub(super) fn bury(
        &self,
        connection: &Connection,
        place: Place,
        node: NodeId,
        memory: Memory,
        bury: impl FnOnce(&str) -> rusqlite::Result<()>,
    ) -> Work<()> {
        // A record of errors that is no text is nothing to keep, and no reason to undo the claim that met it.
        let (attempt, errors): (u32, Option<String>) = connection
            .prepare_cached(&ROW.replace("{table}", place.table))?
            .query_row(named_params! { ":seq": self.seq }, |row| Ok((row.get(0)?, row.get(1).ok().flatten())))?;
        let at = timestamp(memory.now)?;
        let error = AttemptError { attempt, at, node: node.0, error: self.why.clone(), detail: None };
        memory.remember(connection, place, self.seq, Ending::Dead, Some(&self.why))?;
        Ok(bury(&with_error(errors.as_deref(), error)?)?)
    }
}
