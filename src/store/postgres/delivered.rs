//! Claims the jobs that deliveries name.

use std::sync::Arc;

use tokio_postgres::types::ToSql;

use super::rows;
use super::shared::Shared;
use super::unreadable::{Found, claimed, clear_away};
use crate::error::Result;
use crate::job::{ClaimNumber, Fence, Job, NodeId};

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
