//! The embedded store's work with SQLite alone, in the file that the library created.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, params};
use uuid::Uuid;

use crate::Result;
use crate::load::{BATCH, KIND, QUEUE, SEND_BATCH, payload};

/// As durable as the library: a write-ahead log, synced at each commit.
pub(crate) fn open(file: &Path) -> Result<Connection> {
    let connection = Connection::open(file)?;
    connection.execute_batch("pragma synchronous = full; pragma foreign_keys = off; pragma temp_store = memory")?;
    Ok(connection)
}

/// Inserts in batches, each its own transaction.
pub(crate) fn insert(connection: &Connection, jobs: usize) -> Result<()> {
    let payload = payload();
    let first: i64 =
        connection.query_row("select coalesce(max(seq), 0) + 1 from jobwright_job", [], |row| row.get(0))?;
    let mut statement = connection.prepare(
        "insert into jobwright_job (seq, created_at, id, max_attempts, rank, kind, queue, payload) values (?, ?, ?, 10, 0, ?, ?, ?)",
    )?;
    for start in (0..jobs).step_by(SEND_BATCH) {
        connection.execute_batch("begin immediate")?;
        for n in start..jobs.min(start + SEND_BATCH) {
            let id = Uuid::now_v7();
            statement.execute(params![first + n as i64, 0_i64, id.as_bytes(), KIND, QUEUE, payload])?;
        }
        connection.execute_batch("commit")?;
    }
    Ok(())
}

/// Claims and removes in batches, each step its own transaction.
pub(crate) fn empty(connection: &Connection) -> Result<()> {
    let mut claim = connection.prepare(&format!(
        "update jobwright_job set state = 'running', lock_owner = 1, claimed_at = 0, version = version + 1, attempt = attempt + 1 \
         where seq in (select seq from jobwright_job where state = 'waiting' and queue = '{QUEUE}' \
                       order by rank, seq limit {BATCH}) returning seq, id, payload"
    ))?;
    let mut remove = connection.prepare("delete from jobwright_job where seq = ? and lock_owner = 1")?;
    loop {
        let seqs: Vec<i64> = claim.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        if seqs.is_empty() {
            return Ok(());
        }
        connection.execute_batch("begin immediate")?;
        for seq in seqs {
            remove.execute([seq])?;
        }
        connection.execute_batch("commit")?;
    }
}

pub(crate) fn left(connection: &Connection) -> Result<i64> {
    let count = connection.query_row("select count(*) from jobwright_job", [], |row| row.get(0)).optional()?;
    Ok(count.unwrap_or_default())
}
