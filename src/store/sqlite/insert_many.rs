//! Inserts many plain jobs with few statements.

use std::sync::LazyLock;

use rusqlite::{Connection, ToSql};

use super::error::Work;
use super::job_columns::{CONTENT, JobContent};
use super::new_row::NewRow;
use super::statements;

/// How many rows one statement inserts: twice as many are hardly faster.
const ROWS: usize = 32;

/// Parameters without names, which are bound in this order: the content, and then the number, the time of the flush, the end of a head
/// start, and the options.
static INSERT_JOBS: statements::Statement = LazyLock::new(|| {
    let row = format!("({})", vec!["?"; CONTENT.len() + 4].join(", "));
    statements::render(include_str!("sql/insert_jobs.sql")).replace("{rows}", &vec![row; ROWS].join(", "))
});

/// Writes the rows that fill whole statements. Returns the number written, and the remaining rows.
pub(super) fn write<'a, 'm>(connection: &Connection, rows: &'a [NewRow<'m>]) -> Work<(u64, &'a [NewRow<'m>])> {
    let chunks = rows.chunks_exact(ROWS);
    let rest = chunks.remainder();
    let mut written = 0;
    if rows.len() >= ROWS {
        let mut statement = connection.prepare_cached(&INSERT_JOBS)?;
        for chunk in chunks {
            let mut bound = 0;
            let mut bind = |value: &dyn ToSql| {
                bound += 1;
                statement.raw_bind_parameter(bound, value)
            };
            for row in chunk {
                let others: [&dyn ToSql; 4] = [&row.seq, &row.now, &row.visible_at(), &row.options()];
                JobContent::new(row.message)?.values().into_iter().chain(others).try_for_each(&mut bind)?;
            }
            written += statement.raw_execute()? as u64;
        }
    }
    Ok((written, rest))
}
