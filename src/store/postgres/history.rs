//! The history of ended jobs, and their results.

use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{Postgres, rows};
use crate::config::HistoryConfig;
use crate::error::Result;
use crate::job::{JobId, NodeId};
use crate::store::{History, HistoryEntry, HistoryFilter, JobResult};

#[async_trait]
impl History for Postgres {
    fn history_config(&self) -> HistoryConfig {
        self.0.config.history.clone()
    }

    async fn history(&self, filter: &HistoryFilter, limit: usize) -> Result<Vec<HistoryEntry>> {
        let HistoryFilter { id, queue, kind, outcomes, error, ended, behind } = filter;
        let (behind, seq) = behind.unzip();
        let id: Option<Uuid> = id.map(Into::into);
        let outcomes: Option<Vec<&str>> = outcomes.as_ref().map(|all| all.iter().map(|one| one.as_str()).collect());
        let [since, until] = [ended.since, ended.until].map(super::admin::moment);
        let rows = self
            .0
            .engine_filtered(
                "read the history",
                &self.0.sql.history,
                &[&id, queue, kind, &outcomes, error, &since, &until, &behind, &seq, &rows::count(limit)],
            )
            .await?;
        rows.iter().map(entry).collect()
    }

    async fn prune_history(&self, age: Duration, limit: usize) -> Result<u64> {
        let params: super::client::Params<'_> = &[&rows::micros(age), &rows::count(limit)];
        count(&self.0.engine("prune the history", &self.0.sql.prune_history, params).await?)
    }

    async fn prune_audit(&self, age: Duration, limit: usize) -> Result<u64> {
        let params: super::client::Params<'_> = &[&rows::micros(age), &rows::count(limit)];
        count(&self.0.engine("forget the old audit", &self.0.sql.prune_audit, params).await?)
    }

    async fn prune_dead_letters(&self, age: Duration, limit: usize) -> Result<u64> {
        let params: super::client::Params<'_> = &[&rows::micros(age), &rows::count(limit)];
        count(&self.0.engine("remove old dead letters", &self.0.sql.prune_dead_letters, params).await?)
    }

    async fn result(&self, id: JobId) -> Result<Option<JobResult>> {
        let rows = self.0.engine("read the result of a job", &self.0.sql.result, &[id.as_uuid()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(JobResult {
            id,
            kind: rows::get(row, 0)?,
            payload: rows::json_payload(row, 1)?,
            created_at: rows::get(row, 2)?,
            expires_at: rows::get(row, 3)?,
        }))
    }

    async fn prune_results(&self, limit: usize) -> Result<u64> {
        count(&self.0.engine("prune results", &self.0.sql.prune_results, &[&rows::count(limit)]).await?)
    }
}

pub(super) fn count(rows: &[Row]) -> Result<u64> {
    Ok(rows::get::<i64>(rows::single(rows)?, 0)?.unsigned_abs())
}

fn entry(row: &Row) -> Result<HistoryEntry> {
    Ok(HistoryEntry {
        id: JobId::from(rows::get::<Uuid>(row, 0)?),
        seq: rows::get(row, 1)?,
        kind: rows::get(row, 2)?,
        queue: rows::get(row, 3)?,
        outcome: rows::get::<&str>(row, 4)?.parse()?,
        attempt: rows::attempts(rows::get(row, 5)?),
        created_at: rows::get(row, 6)?,
        started_at: rows::get(row, 7)?,
        ended_at: rows::get(row, 8)?,
        node: rows::get::<Option<i64>>(row, 9)?.map(NodeId),
        tenant: rows::get(row, 10)?,
        error: rows::get(row, 11)?,
    })
}
