//! The audit log: who did what.

use super::client::Params;
use super::engine_transaction::EngineTransaction;
use super::rows;
use super::shared::Shared;
use super::types::JsonParam;
use crate::error::Result;
use crate::store::AffectedJobs;

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
