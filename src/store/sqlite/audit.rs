//! The audit log: who did what.

use rusqlite::types::Type;
use rusqlite::{Connection, Row, named_params};
use serde_json::Value;

use super::error::Work;
use super::rows::{Micros, broken, count, timestamp};
use super::shared::Shared;
use crate::error::Result;
use crate::store::sections::section;
use crate::store::{AffectedJobs, AuditEntry, AuditFilter, AuditNote};

const SQL: &str = include_str!("audit.sql");
const AUDIT: &str = section(SQL, "audit");
const AUDIT_WRITE: &str = section(SQL, "audit_write");
const AUDIT_COUNT: &str = section(SQL, "audit_count");

/// Writes an entry if there is a name to record, and returns its number.
pub(super) fn write(
    connection: &Connection,
    by: Option<&str>,
    action: &str,
    what: &Value,
    now: Micros,
) -> rusqlite::Result<Option<i64>> {
    let Some(who) = by else { return Ok(None) };
    connection.prepare_cached(AUDIT_WRITE)?.execute(named_params! {
        ":at": now, ":who": who, ":action": action, ":what": what.to_string(),
    })?;
    Ok(Some(connection.last_insert_rowid()))
}

/// An audit note in owned form, for a write on another thread.
pub(super) struct Noted {
    by: String,
    action: &'static str,
    what: Value,
    entry: Option<i64>,
    sent: u64,
}

impl From<&AuditNote<'_>> for Noted {
    fn from(note: &AuditNote<'_>) -> Self {
        let AuditNote { by, action, ref what, entry, sent } = *note;
        Self { by: by.to_owned(), action, what: what.clone(), entry, sent }
    }
}

impl Noted {
    /// Writes or updates the entry of an action that has just sent `sent` jobs, and returns its number.
    pub(super) fn write(self, connection: &Connection, sent: u64, now: Micros) -> Work<i64> {
        let Self { by, action, what, entry, sent: before } = self;
        let note = AuditNote { by: &by, action, what, entry, sent: before + sent };
        let id = match entry {
            Some(id) => id,
            None => {
                write(connection, Some(&by), action, &note.what, now)?;
                connection.last_insert_rowid()
            }
        };
        let counts = note.counts().to_string();
        connection.prepare_cached(AUDIT_COUNT)?.execute(named_params! { ":id": id, ":counts": counts })?;
        Ok(id)
    }
}

/// Sets how many jobs the action of an entry has affected so far.
pub(super) fn counts(connection: &Connection, id: i64, counts: &AffectedJobs) -> rusqlite::Result<()> {
    let counts = serde_json::json!(counts).to_string();
    connection.prepare_cached(AUDIT_COUNT)?.execute(named_params! { ":id": id, ":counts": counts }).map(drop)
}

impl Shared {
    pub(super) async fn audit(&self, filter: &AuditFilter, limit: usize) -> Result<Vec<AuditEntry>> {
        let AuditFilter { who, action, before } = filter.clone();
        self.query("read the audit", move |connection, _| {
            let mut statement = connection.prepare_cached(AUDIT)?;
            let params = named_params! { ":before": before, ":who": who, ":action": action, ":limit": count(limit) };
            let entries = statement.query_map(params, entry)?;
            Ok(entries.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }
}

fn entry(row: &Row<'_>) -> rusqlite::Result<AuditEntry> {
    let json = |column: &str| {
        let text: String = row.get(column)?;
        serde_json::from_str(&text).map_err(|error| broken(column, Type::Text, error))
    };
    Ok(AuditEntry {
        id: row.get("id")?,
        at: timestamp(row.get("at")?)?,
        who: row.get("who")?,
        action: row.get("action")?,
        what: json("what")?,
        counts: json("counts")?,
    })
}
