//! From jobs that are done to the next ones of their groups, with one statement.

use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::claim::{columns, queued};
use super::types::tid;
use super::{Shared, rows};
use crate::error::Result;
use crate::job::{ClaimNumber, Fence, JobId, NodeId};
use crate::store::admission::group_key;
use crate::store::{GroupTurn, HandedOn};

/// Where the answer has the queue of a job that was claimed, and nothing for one that is done.
const QUEUE: usize = 15;

pub(super) async fn hand_on(
    shared: &Arc<Shared>,
    node: NodeId,
    claim: ClaimNumber,
    ended: &[Fence],
    turns: &[GroupTurn],
    kinds: &[String],
) -> Result<HandedOn> {
    let (ended, places): (Vec<Fence>, Vec<_>) =
        ended.iter().filter_map(|fence| tid(fence.place).map(|place| (*fence, place))).unzip();
    let (ids, versions) = columns(&ended);
    let groups = Groups::new(turns);
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
    let rows = shared.engine_once(tried, &shared.sql.hand_on, &params).await?;
    let is_claimed = |row: &Row| matches!(rows::get::<Option<&str>>(row, QUEUE), Ok(Some(_)));
    let (claimed, done): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(is_claimed);
    let accepted = done.iter().map(|row| rows::get::<Uuid>(row, 0).map(JobId::from)).collect::<Result<_>>()?;
    Ok(HandedOn { accepted, next: queued(shared, Some(node), &claimed).await? })
}

/// One array a column.
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
    fn new(turns: &'a [GroupTurn]) -> Self {
        let mut groups = Self::default();
        for turn in turns {
            groups.keys.push(group_key(&turn.group));
            groups.holders.push(turn.holder.into());
            groups.leases.push(turn.lease.into());
            groups.queues.push(&turn.queue);
            groups.wanted.push(i32::try_from(turn.wanted).unwrap_or(i32::MAX));
            // Nothing is before them.
            let (rank, seq) = turn.after.map_or((i16::MIN, i64::MIN), |(priority, seq)| (-priority, seq));
            groups.ranks.push(rank);
            groups.seqs.push(seq);
        }
        groups
    }
}
