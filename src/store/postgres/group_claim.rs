//! Completes jobs and claims the next ones of their groups, in one statement.

use std::sync::Arc;

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::rows;
use super::shared::Shared;
use super::types::tid;
use super::unreadable::claimed as read_claimed;
use crate::error::Result;
use crate::job::{ClaimNumber, Fence, JobId, NodeId};
use crate::store::admission::group_key;
use crate::store::{GroupClaim, GroupsClaimed};

pub(super) async fn complete_and_claim_next(
    shared: &Arc<Shared>,
    node: NodeId,
    claim: ClaimNumber,
    ended: &[Fence],
    groups_wanted: &[GroupClaim],
    kinds: &[String],
) -> Result<GroupsClaimed> {
    let (ended, places): (Vec<Fence>, Vec<_>) =
        ended.iter().filter_map(|fence| tid(fence.location).map(|location| (*fence, location))).unzip();
    let (ids, versions) = rows::fence_columns(&ended);
    let groups = Groups::new(groups_wanted);
    let params: [&(dyn ToSql + Sync); 13] = [
        &node.0,
        &ids,
        &versions,
        &places,
        &kinds,
        &claim.as_int4(),
        &groups.keys,
        &groups.holders,
        &groups.leases,
        &groups.queues,
        &groups.wanted,
        &groups.ranks,
        &groups.seqs,
    ];
    let tried = "complete jobs and claim the next of their groups";
    let rows = shared.engine_once(tried, &shared.sql.complete_and_claim_next, &params).await?;
    let (mut accepted, mut claimed) = (Vec::with_capacity(ended.len()), Vec::new());
    for row in rows {
        match rows::get::<Option<Uuid>>(&row, "done")? {
            Some(done) => accepted.push(JobId::from(done)),
            None => claimed.push(row),
        }
    }
    Ok(GroupsClaimed { accepted, next: read_claimed(shared, node, &claimed).await? })
}

/// The groups as one array per column.
#[derive(Default)]
struct Groups<'a> {
    keys: Vec<String>,
    holders: Vec<Uuid>,
    leases: Vec<Uuid>,
    queues: Vec<&'a str>,
    wanted: Vec<i32>,
    ranks: Vec<i16>,
    seqs: Vec<i64>,
}

impl<'a> Groups<'a> {
    fn new(groups_wanted: &'a [GroupClaim]) -> Self {
        let mut groups = Self::default();
        for claim_next in groups_wanted {
            groups.keys.push(group_key(&claim_next.group));
            groups.holders.push(claim_next.holder.into());
            groups.leases.push(claim_next.lease.into());
            groups.queues.push(&claim_next.queue);
            groups.wanted.push(i32::try_from(claim_next.wanted).unwrap_or(i32::MAX));
            // Nothing sorts before these values.
            let (rank, seq) = claim_next.after.map_or((i16::MIN, i64::MIN), |(priority, seq)| (-priority, seq));
            groups.ranks.push(rank);
            groups.seqs.push(seq);
        }
        groups
    }
}
