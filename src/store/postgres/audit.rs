//! The audit log: who did what.

use std::sync::Arc;

use tokio_postgres::Row;

use super::client::Params;
use super::engine_transaction::EngineTransaction;
use super::rows;
use super::shared::Shared;
use super::types::{JsonParam, JsonText};
use crate::error::{Error, ErrorKind, Result};
use crate::store::{AffectedJobs, AuditEntry, AuditFilter};

pub(super) async fn audit(shared: &Arc<Shared>, filter: &AuditFilter, limit: usize) -> Result<Vec<AuditEntry>> {
    let AuditFilter { who, action, before } = filter;
    let params: Params<'_> = &[before, who, action, &rows::count(limit)];
    shared.engine_filtered("read the audit", &shared.sql.audit, params).await?.iter().map(entry).collect()
}

/// The audit entry of one action, however many transactions that takes.
pub(super) struct Audit<'a> {
    pub(super) by: Option<&'a str>,
    pub(super) action: &'static str,
    pub(super) what: serde_json::Value,
    pub(super) entry: Option<i64>,
}

impl Audit<'_> {
    pub(super) async fn write(
        &mut self,
        batch: &EngineTransaction,
        shared: &Shared,
        counts: &AffectedJobs,
    ) -> Result<()> {
        let Some(by) = self.by else { return Ok(()) };
        let counts = serde_json::json!(counts).to_string();
        let sql = &shared.sql;
        if let Some(id) = self.entry {
            return batch.query(&sql.audit_count, &[&id, &JsonParam(&counts)]).await.map(drop);
        }
        let what = self.what.to_string();
        let params: Params<'_> = &[&by, &self.action, &JsonParam(&what), &JsonParam(&counts)];
        let rows = batch.query(&sql.audit_write, params).await?;
        self.entry = Some(rows::get(rows::single(&rows)?, 0)?);
        Ok(())
    }
}

fn entry(row: &Row) -> Result<AuditEntry> {
    let json = |column| {
        let JsonText(text) = rows::get(row, column)?;
        serde_json::from_str(text).map_err(|error| {
            Error::new(ErrorKind::Database, "the server returned JSON that is none").with_source(error)
        })
    };
    Ok(AuditEntry {
        id: rows::get(row, "id")?,
        at: rows::get(row, "at")?,
        who: rows::get(row, "who")?,
        action: rows::get(row, "action")?,
        what: json("what")?,
        counts: json("counts")?,
    })
}
