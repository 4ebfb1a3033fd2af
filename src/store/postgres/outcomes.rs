//! How claims end, and how far they are until then.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::database::Postgres;
use super::shared::Shared;
use super::types::{JsonParam, JsonText, tid};
use super::{group_claim, rows, settle};
use crate::error::Result;
use crate::job::{ClaimNumber, Fence, JobId, NodeId};
use crate::store::{GroupClaim, GroupsClaimed, HeldJob, JobProgress, Outcomes, ProgressUpdate, Settlement};

#[async_trait]
impl Outcomes for Postgres {
    async fn complete(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<JobId>> {
        let leaves = |fence: &Fence| fence.location.holds_permits || fence.location.holds_key;
        if fences.iter().all(|fence| !leaves(fence)) {
            return complete_at(&self.0, node, fences).await;
        }
        // Jobs that hold nothing take the cheaper statement.
        let (leaving, plain): (Vec<Fence>, Vec<Fence>) = fences.iter().copied().partition(leaves);
        let mut accepted = complete_at(&self.0, node, &leaving).await?;
        if !plain.is_empty() {
            accepted.extend(complete_at(&self.0, node, &plain).await?);
        }
        Ok(accepted)
    }

    async fn complete_and_claim_next(
        &self,
        node: NodeId,
        claim: ClaimNumber,
        ended: &[Fence],
        groups: &[GroupClaim],
        kinds: &[String],
    ) -> Result<GroupsClaimed> {
        group_claim::complete_and_claim_next(&self.0, node, claim, ended, groups, kinds).await
    }

    async fn settle(&self, node: NodeId, settlements: &[Settlement]) -> Result<Vec<JobId>> {
        settle::settle(&self.0, node, settlements).await
    }

    async fn held(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<HeldJob>> {
        settle::held(&self.0, Some(node), &rows::fence_columns(fences).0).await
    }

    async fn put_off(&self, node: NodeId, fence: Fence, by: Duration) -> Result<()> {
        let params: [&(dyn ToSql + Sync); 4] = [&node.0, fence.id.as_uuid(), &fence.version, &rows::micros(by)];
        self.0.engine("postpone a job", &self.0.sql.put_off, &params).await.map(drop)
    }

    async fn handlers_ended(&self, node: NodeId, fences: &[Fence]) -> Result<u64> {
        handlers_ended(&self.0, Some(node), fences).await
    }

    async fn stale_claims(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<Fence>> {
        let (ids, versions): (Vec<Uuid>, Vec<i64>) =
            fences.iter().map(|fence| (*fence.id.as_uuid(), fence.version)).unzip();
        let sql = &self.0.sql.stale_claims;
        let rows = self.0.engine("look for cancelled jobs", sql, &[&node.0, &ids, &versions]).await?;
        let stale: Vec<Fence> = rows
            .iter()
            .map(|row| Ok(Fence::new(JobId::from(rows::get::<Uuid>(row, "id")?), rows::get(row, "version")?)))
            .collect::<Result<_>>()?;
        if !stale.is_empty() {
            let (ids, versions) = rows::fence_columns(&stale);
            let tried = "keep groups and permits of handlers of vanished jobs";
            self.0.engine(tried, &self.0.sql.keep_vanished, &[&node.0, &ids, &versions]).await?;
        }
        Ok(stale)
    }

    async fn record_progress(&self, node: NodeId, fence: Fence, update: &ProgressUpdate) -> Result<bool> {
        let shared = &self.0;
        let percent = update.percent.map(i16::from);
        let checkpoint = update.checkpoint.as_ref().map(|json| JsonParam(json.get()));
        let rows = shared
            .engine(
                "record the progress of a job",
                &shared.sql.record_progress,
                &[&node.0, fence.id.as_uuid(), &fence.version, &percent, &update.note, &checkpoint],
            )
            .await?;
        Ok(!rows.is_empty())
    }

    async fn progress(&self, id: JobId) -> Result<Option<JobProgress>> {
        let rows = self.0.engine("read the progress of a job", &self.0.sql.progress, &[id.as_uuid()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let percent: Option<i16> = rows::get(row, "percent")?;
        let checkpoint: Option<JsonText<'_>> = rows::get(row, "checkpoint")?;
        Ok(Some(JobProgress {
            percent: percent.and_then(|percent| u8::try_from(percent).ok()),
            note: rows::get(row, "note")?,
            checkpoint: checkpoint.map(|JsonText(text)| rows::raw(text)).transpose()?,
            at: rows::get(row, "at")?,
        }))
    }
}

/// Completes jobs with the simplest statement that releases everything any of them holds.
async fn complete_at(shared: &Arc<Shared>, node: NodeId, fences: &[Fence]) -> Result<Vec<JobId>> {
    let Some(places) = fences.iter().map(|fence| tid(fence.location)).collect::<Option<Vec<_>>>() else {
        return complete_by_id(shared, node, fences).await;
    };
    let (ids, versions) = rows::fence_columns(fences);
    let holding = fences.iter().any(|fence| fence.location.holds_permits);
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![&node.0, &ids, &versions, &places];
    let statement = if fences.iter().any(|fence| fence.location.holds_key) {
        params.push(&holding);
        &shared.sql.complete_keyed
    } else if holding {
        &shared.sql.complete_holding
    } else {
        &shared.sql.complete_at
    };
    let mut accepted = rows::job_ids(&shared.engine("complete jobs", statement, &params).await?)?;
    // A row that is not where it was claimed was moved (by `VACUUM FULL`, say) or is no longer this node's. The index finds it if it
    // exists.
    if accepted.len() < fences.len() {
        let found: HashSet<JobId> = accepted.iter().copied().collect();
        let missing: Vec<Fence> = fences.iter().filter(|fence| !found.contains(&fence.id)).copied().collect();
        accepted.extend(complete_by_id(shared, node, &missing).await?);
    }
    Ok(accepted)
}

async fn complete_by_id(shared: &Arc<Shared>, node: NodeId, fences: &[Fence]) -> Result<Vec<JobId>> {
    let (ids, versions) = rows::fence_columns(fences);
    let rows = shared.engine("complete jobs", &shared.sql.complete, &[&node.0, &ids, &versions]).await?;
    rows::job_ids(&rows)
}

/// Releases what handlers held whose jobs were cancelled. `node` is `None` for external workers.
pub(super) async fn handlers_ended(shared: &Arc<Shared>, node: Option<NodeId>, fences: &[Fence]) -> Result<u64> {
    if fences.is_empty() {
        return Ok(0);
    }
    let (ids, versions) = rows::fence_columns(fences);
    let params: [&(dyn ToSql + Sync); 3] = [&node.map(|node| node.0), &ids, &versions];
    let answer = shared.engine("free groups and permits of a handler", &shared.sql.handlers_ended, &params).await?;
    Ok(answer.len() as u64)
}
