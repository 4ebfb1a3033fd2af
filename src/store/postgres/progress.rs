//! The progress of running jobs.

use std::sync::Arc;

use super::rows;
use super::shared::Shared;
use super::types::{JsonParam, JsonText};
use crate::error::Result;
use crate::job::{Fence, JobId, NodeId};
use crate::store::{JobProgress, ProgressUpdate};

pub(super) async fn record_progress(
    shared: &Arc<Shared>,
    node: NodeId,
    fence: Fence,
    update: &ProgressUpdate,
) -> Result<bool> {
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

pub(super) async fn progress(shared: &Arc<Shared>, id: JobId) -> Result<Option<JobProgress>> {
    let rows = shared.engine("read the progress of a job", &shared.sql.progress, &[id.as_uuid()]).await?;
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

pub(super) async fn prune_progress(shared: &Arc<Shared>, limit: usize) -> Result<u64> {
    super::around::forget(shared, "prune progress", &shared.sql.prune_progress, &[], limit).await
}
