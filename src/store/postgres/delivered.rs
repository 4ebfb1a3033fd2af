//! Claims the jobs that deliveries name, and frees those of deliveries that do not arrive.

use std::sync::Arc;

use tokio_postgres::types::ToSql;

use super::parts::in_parts_of;
use super::rows;
use super::shared::Shared;
use super::unreadable::{Found, claimed, clear_away};
use crate::error::Result;
use crate::job::{ClaimNumber, Fence, Job, JobId, NodeId};

pub(super) async fn claim_delivered(
    shared: &Arc<Shared>,
    node: NodeId,
    claim: ClaimNumber,
    deliveries: &[Fence],
    kinds: Option<&[String]>,
) -> Result<Vec<Job>> {
    let (ids, versions) = rows::fence_columns(deliveries);
    let number = claim.as_int4();
    let params: [&(dyn ToSql + Sync); 5] = [&node.0, &ids, &versions, &kinds, &number];
    let take = || shared.engine_once("claim delivered jobs", &shared.sql.claim_delivered, &params);
    let named = async || {
        let rows = shared.engine("look for delivered jobs", &shared.sql.delivered, &[&ids, &versions]).await?;
        rows.iter().map(Found::read).collect()
    };
    let rows = match take().await {
        Err(error) if clear_away(shared, &error, node, named()).await => take().await?,
        taken => taken?,
    };
    claimed(shared, node, &rows).await
}

/// Ends the head start of deliveries that will not arrive. Returns the queues of the rows.
pub(super) async fn unhide(shared: &Arc<Shared>, ids: &[JobId]) -> Result<Vec<String>> {
    let ids: Vec<_> = ids.iter().map(|id| *id.as_uuid()).collect();
    let tried = "end the head start of deliveries";
    let mut queues = Vec::new();
    for row in in_parts_of(shared, tried, (&shared.sql.unhide, &[]), &ids).await?.0.iter().flatten() {
        let queue: String = rows::get(row, 0)?;
        if !queues.contains(&queue) {
            queues.push(queue);
        }
    }
    Ok(queues)
}
