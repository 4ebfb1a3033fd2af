//! Reconciles what is kept beside the jobs: see `store::reconcile`.

use std::sync::Arc;
use std::time::Instant;

use tokio_postgres::Row;
use uuid::Uuid;

use super::around::may_be_of_rows;
use super::engine_transaction::EngineTransaction;
use super::halves::Halves;
use super::rows;
use super::shared::Shared;
use crate::error::Result;
use crate::job::JobId;
use crate::store::reconcile::{PermitHolder, Reconciled};

/// How many permits, and how many keys, one step looks at.
const PAGE: i64 = 5000;

fn holder(row: &Row) -> Result<PermitHolder> {
    Ok(PermitHolder { job: JobId::from(rows::get::<Uuid>(row, "job_id")?), key: rows::get(row, "key")? })
}

pub(super) async fn reconcile(shared: &Arc<Shared>, before: &Reconciled) -> Result<Reconciled> {
    let mut step = Reconciled::default();
    if !before.orphans.is_empty() {
        step.reclaimed = reclaim(shared, &before.orphans).await?;
    }
    // Of both, one may have been looked at to its end.
    let begins = !before.has_more();
    if begins || before.last_permit.is_some() {
        let (after, key) = before.last_permit.as_ref().map_or((Uuid::nil(), ""), |last| (last.job.into(), &*last.key));
        let tried = "look for permits without a holder";
        for row in &shared.engine(tried, &shared.sql.orphaned_permits, &[&after, &key, &PAGE]).await? {
            if rows::get(row, "is_orphaned")? {
                step.orphans.push(holder(row)?);
            } else {
                step.last_permit = Some(holder(row)?);
            }
        }
    }
    if begins || before.last_key.is_some() {
        let after = before.last_key.as_deref().unwrap_or_default();
        let tried = "look for keys that nothing will unblock";
        let answer = shared.engine(tried, &shared.sql.unblock_stuck, &[&after, &PAGE]).await?;
        let row = rows::single(&answer)?;
        step.unblocked = rows::get::<Option<Vec<String>>>(row, "opened")?.unwrap_or_default();
        step.last_key = rows::get(row, "last")?;
    }
    Ok(step)
}

/// Takes permits back, in the turn of an admission pass.
async fn reclaim(shared: &Arc<Shared>, orphans: &[PermitHolder]) -> Result<Vec<PermitHolder>> {
    let (ids, keys): (Vec<Uuid>, Vec<&str>) = orphans.iter().map(|one| (Uuid::from(one.job), &*one.key)).unzip();
    let tried = "take back permits without a holder";
    let batch = EngineTransaction::begin_with(shared, tried, &shared.sql.admit_lock).await?;
    let gone = batch.query(&shared.sql.reclaim_permits, &[&ids, &keys]).await?;
    batch.commit().await?;
    gone.iter().map(holder).collect()
}

/// Forgets unique keys whose jobs are in no table. Returns how many.
pub(super) async fn prune_keys(shared: &Arc<Shared>, limit: usize) -> Result<u64> {
    let from = Uuid::new_v4().as_bytes().to_vec();
    let tried = "look for unique keys without a job";
    let found = shared.engine(tried, &shared.sql.left_keys, &[&from, &rows::count(limit)]).await?;
    if found.is_empty() {
        return Ok(0);
    }
    let keys = found.iter().map(|row| rows::get(row, "key")).collect::<Result<Vec<Vec<u8>>>>()?;
    let versions = found.iter().map(|row| rows::get(row, "version")).collect::<Result<Vec<String>>>()?;
    let found: Vec<(Vec<u8>, String)> = keys.into_iter().zip(versions).collect();
    let (mut halves, mut forgotten) = (Halves::of(&found, shared.call_timeout), 0);
    while let Some(part) = halves.next() {
        let (keys, versions): (Vec<&[u8]>, Vec<&str>) = part.iter().map(|(key, version)| (&**key, &**version)).unzip();
        let tried = "forget unique keys without a job";
        match shared.engine(tried, &shared.sql.prune_keys, &[&keys, &versions]).await {
            Ok(answer) => forgotten += rows::single_count(&answer)?,
            Err(error) if !may_be_of_rows(&error) => return Err(error),
            Err(error) => {
                if halves.failed(part).is_some() && shared.lock_holders.is_news(tried, Instant::now()) {
                    tracing::warn!(%error, "a unique key without a job can't be forgotten; the others are, and this one is tried again later");
                }
            }
        }
    }
    Ok(forgotten)
}
