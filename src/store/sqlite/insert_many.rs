//! Inserts many plain jobs with few statements.

use std::sync::LazyLock;

use rusqlite::{Connection, Statement, ToSql};

use super::failure::{Failure, Work};
use super::fragments;
use super::insert::{NewRow, content, headers, rank, visible_at};

/// How many rows one statement inserts: twice as many are hardly faster.
const ROWS: usize = 32;
const ROW: &str = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

static INSERT_JOBS: fragments::Statement =
    LazyLock::new(|| include_str!("sql/insert_jobs.sql").replace("{rows}", &vec![ROW; ROWS].join(", ")));

/// Writes the rows that fill whole statements. Returns the number written, and the remaining rows.
pub(super) fn write<'a, 'm>(connection: &Connection, rows: &'a [NewRow<'m>]) -> Work<(u64, &'a [NewRow<'m>])> {
    let chunks = rows.chunks_exact(ROWS);
    let rest = chunks.remainder();
    let mut written = 0;
    if rows.len() >= ROWS {
        let mut statement = connection.prepare_cached(&INSERT_JOBS)?;
        for chunk in chunks {
            let mut next = Parameters { statement: &mut statement, bound: 0 };
            for row in chunk {
                next.row(row)?;
            }
            written += statement.raw_execute()? as u64;
        }
    }
    Ok((written, rest))
}

/// Binds values one after the other.
struct Parameters<'a, 'c> {
    statement: &'a mut Statement<'c>,
    bound: usize,
}

impl Parameters<'_, '_> {
    fn next(&mut self, value: impl ToSql) -> rusqlite::Result<()> {
        self.bound += 1;
        self.statement.raw_bind_parameter(self.bound, value)
    }

    fn row(&mut self, row: &NewRow<'_>) -> std::result::Result<(), Failure> {
        let message = row.message;
        let (payload, body, content_type) = content(&message.payload);
        self.next(row.seq)?;
        self.next(row.now)?;
        self.next(message.id.as_uuid().as_bytes())?;
        self.next(message.max_attempts)?;
        self.next(rank(message))?;
        self.next(&message.kind)?;
        self.next(&message.queue)?;
        self.next(payload)?;
        self.next(body)?;
        self.next(content_type)?;
        self.next(headers(message)?)?;
        self.next(visible_at(row))?;
        self.next(row.options())?;
        Ok(())
    }
}
