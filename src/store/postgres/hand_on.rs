//! From a job that is done to the next one of its group, with one statement.

use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::claim::columns;
use super::types::{holds, tid};
use super::unreadable::{settle_all, sort_out};
use super::{Shared, rows};
use crate::error::Result;
use crate::job::{ClaimNumber, Fence, JobId, NodeId};
use crate::store::HandedOn;

/// Where the answer has the queue of a job that was claimed, and nothing for one that is done.
const QUEUE: usize = 15;

pub(super) async fn hand_on(
    shared: &Arc<Shared>,
    node: NodeId,
    claim: ClaimNumber,
    fences: &[Fence],
    kinds: &[String],
) -> Result<HandedOn> {
    let holding: Vec<Fence> = fences.iter().filter(|fence| holds(fence.place)).copied().collect();
    if holding.is_empty() {
        return Ok(HandedOn::default());
    }
    let (ids, versions) = columns(&holding);
    let places: Vec<_> = holding.iter().filter_map(|fence| tid(fence.place)).collect();
    let params: [&(dyn ToSql + Sync); 6] = [&node.0, &ids, &versions, &places, &kinds, &claim.as_int4()];
    let tried = "complete jobs and claim the next of their groups";
    let rows = shared.engine_once(tried, &shared.sql.hand_on, &params).await?;
    let is_claimed = |row: &Row| matches!(rows::get::<Option<&str>>(row, QUEUE), Ok(Some(_)));
    let (claimed, done): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(is_claimed);
    let accepted = done.iter().map(|row| rows::get::<Uuid>(row, 0).map(JobId::from)).collect::<Result<_>>()?;
    let (next, unreadable) = sort_out(&claimed, |row| rows::get(row, QUEUE))?;
    settle_all(shared, Some(node), &unreadable).await;
    Ok(HandedOn { accepted, next })
}
