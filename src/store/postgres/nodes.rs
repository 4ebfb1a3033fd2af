//! Nodes: their heartbeats, and the jobs that they leave behind.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::around::may_be_of_rows;
use super::client::Params;
use super::halves::Named;
use super::parts::in_parts_of;
use super::rows;
use super::shared::Shared;
use super::unreadable::{Found, clear_away_idle};
use super::walk::Pages;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{ClaimNumber, Fence, JobId, NodeId, draw_node};
use crate::store::{NodeHeartbeat, NodeInfo, Released};

pub(super) async fn register(shared: &Arc<Shared>, node: &NodeInfo) -> Result<NodeId> {
    let lease = i64::try_from(node.lease.as_micros()).unwrap_or(i64::MAX);
    loop {
        let id = draw_node();
        let params: [&(dyn ToSql + Sync); 5] = [&node.name, &node.host, &i64::from(node.pid), &lease, &id];
        if !shared.engine("register the node", &shared.sql.register_node, &params).await?.is_empty() {
            return Ok(NodeId(id));
        }
    }
}

pub(super) async fn node_heartbeats(shared: &Arc<Shared>) -> Result<Vec<NodeHeartbeat>> {
    let answer = shared.engine("look at the heartbeats of all nodes", &shared.sql.node_heartbeats, &[]).await?;
    answer
        .iter()
        .map(|row| {
            let lease: i64 = rows::get(row, "lease_us")?;
            Ok(NodeHeartbeat {
                node: NodeId(rows::get(row, "id")?),
                heartbeats: rows::get(row, "heartbeats")?,
                lease: Duration::from_micros(lease.max(0).unsigned_abs()),
                ended: false,
                dead: rows::get(row, "dead")?,
            })
        })
        .collect()
}

pub(super) async fn declare_dead(shared: &Arc<Shared>, silent: &[NodeHeartbeat]) -> Result<Vec<NodeId>> {
    let (ids, heartbeats): (Vec<i64>, Vec<i64>) = silent.iter().map(|seen| (seen.node.0, seen.heartbeats)).unzip();
    let answer = shared.engine("declare nodes dead", &shared.sql.declare_dead, &[&ids, &heartbeats]).await?;
    answer.iter().map(|row| rows::get(row, 0).map(NodeId)).collect()
}

pub(super) async fn retire(shared: &Arc<Shared>, node: NodeId) -> Result<u64> {
    shared.engine("retire the node", &shared.sql.retire_node, &[&node.0]).await?;
    // Claims and commits of this node may still be running though no one waits for their answers. Any that begin after this find the node
    // dead.
    let waited = claims_ended(shared, node).await;
    let (released, held) = release_free(shared, node, &[], None).await?;
    match (waited, held) {
        (Ok(()), None) => {
            shared.engine("forget the retired node", &shared.sql.forget_nodes, &[&vec![node.0]]).await?;
        }
        // It stays on the list of dead nodes, and monitors release the jobs that are free later.
        (Ok(()), Some(error)) => {
            tracing::warn!(%node, %error, "jobs of this node are locked by another transaction, or the application refuses to let them go; monitors release them when that has ended");
        }
        (Err(error), _) if matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Busy) => tracing::warn!(
            %node,
            "a transaction that hands jobs to this node is open for longer than database.call_timeout; monitors release what it leaves"
        ),
        (Err(error), _) => return Err(error),
    }
    Ok(released)
}

/// Waits until no claim of a dead node is under way. Whatever other roles hold means nothing.
async fn claims_ended(shared: &Arc<Shared>, node: NodeId) -> Result<()> {
    let end = Instant::now() + shared.call_timeout;
    loop {
        match shared.engine_once("wait for claims under way", &shared.sql.wait_for_node, &[&node.0]).await {
            Err(error) if error.is_undecided() => {
                let idle = shared.engine("wait for claims under way", &shared.sql.idle_of, &[&vec![node.0]]).await?;
                if !idle.is_empty() {
                    return Ok(());
                }
                if Instant::now() >= end {
                    return Err(error);
                }
            }
            waited => return waited.map(drop),
        }
    }
}

/// What a release of jobs of dead nodes is called in messages.
const RELEASE_LOST: &str = "release what dead nodes own";

pub(super) async fn release_lost(
    shared: &Arc<Shared>,
    limit: usize,
    quarantine: Option<NonZeroU32>,
) -> Result<Released> {
    let deaths = quarantine.map(|n| i64::from(n.get()));
    // Read before the walk: from here on these nodes own nothing that the walk could miss.
    let quiet = rows::numbers(&shared.engine("look for nodes to forget", &shared.sql.idle_nodes, &[]).await?)?;
    let mut all = Released::default();
    for range in ranges(shared).await? {
        let left = limit - usize::try_from(all.total()).unwrap_or(usize::MAX).min(limit);
        let (left_over, from, to) = (rows::count(left), range.from(), range.to());
        let params: [&(dyn ToSql + Sync); 4] = [&left_over, &deaths, &from, &to];
        let whole: [&(dyn ToSql + Sync); 5] = [&left_over, &deaths, &from, &to, &None::<Vec<Uuid>>];
        let release = || shared.engine_once(RELEASE_LOST, &shared.sql.release_lost, &whole);
        let answers = match release().await {
            Err(error) if clear_away_idle(shared, &error, lost(shared, left, &range)).await => vec![release().await?],
            Err(error) if may_be_of_rows(&error) => {
                let found = lost(shared, left, &range).await?;
                let found: Vec<Uuid> = found.iter().map(Named::id).collect();
                in_parts_of(shared, RELEASE_LOST, (&shared.sql.release_lost, &params), &found).await?.0
            }
            answer => vec![answer?],
        };
        for answer in answers {
            let row = rows::single(&answer)?;
            all.waiting += rows::get::<i64>(row, "waiting")?.unsigned_abs();
            all.dead += rows::get::<i64>(row, "dead")?.unsigned_abs();
        }
        if all.total() >= limit as u64 {
            shared.walked.stopped_in(&range);
            return Ok(all);
        }
    }
    forget(shared, quiet).await?;
    // Comes last: a cancellation that found its node alive was committed before the node was forgotten.
    all.ended = shared.engine("free what lost handlers held", &shared.sql.lost_terminating, &[]).await?.len() as u64;
    Ok(all)
}

/// Lists the jobs that a release would find in a range.
async fn lost(shared: &Arc<Shared>, limit: usize, range: &Pages) -> Result<Vec<Found>> {
    let params: [&(dyn ToSql + Sync); 3] = [&rows::count(limit), &range.from(), &range.to()];
    let rows = shared.engine("look for what dead nodes own", &shared.sql.lost, &params).await?;
    rows.iter().map(Found::read_lost).collect()
}

/// Returns the ranges of a walk over all current jobs.
async fn ranges(shared: &Arc<Shared>) -> Result<Vec<Pages>> {
    let answer = shared.engine("ask how many pages the jobs take", &shared.sql.job_pages, &[]).await?;
    let pages: i64 = rows::get(rows::single(&answer)?, 0)?;
    Ok(shared.walked.ranges(pages.unsigned_abs()))
}

/// Forgets dead nodes that own nothing any more. The first walk skipped rows locked by other transactions, so a second one looks for them.
async fn forget(shared: &Arc<Shared>, mut quiet: Vec<i64>) -> Result<()> {
    if quiet.is_empty() {
        return Ok(());
    }
    for range in ranges(shared).await? {
        let params: [&(dyn ToSql + Sync); 3] = [&quiet, &range.from(), &range.to()];
        let owning = rows::numbers(&shared.engine("look for jobs of dead nodes", &shared.sql.owners, &params).await?)?;
        let owning: HashSet<i64> = owning.into_iter().collect();
        quiet.retain(|node| !owning.contains(node));
    }
    shared.engine("forget dead nodes", &shared.sql.forget_nodes, &[&quiet]).await.map(drop)
}

/// What a release of jobs of a living node is called in messages.
const TRIED: &str = "release what got lost on the way";

pub(super) async fn release_unknown(
    shared: &Arc<Shared>,
    node: NodeId,
    known: &[Fence],
    before: Option<ClaimNumber>,
) -> Result<u64> {
    match release_free(shared, node, known, before).await? {
        // The transaction that holds them ends some time. The others are released by now.
        (released, Some(error)) if error.is_undecided() => {
            tracing::debug!(released, "released what got lost on the way, but for rows that are locked");
            Err(error)
        }
        // What the application refuses is looked for again with the next routine look.
        (released, _) => Ok(released),
    }
}

/// Does the same, and returns an error if rows were left because other transactions have locked them, or because the application refuses it.
async fn release_free(
    shared: &Arc<Shared>,
    node: NodeId,
    known: &[Fence],
    before: Option<ClaimNumber>,
) -> Result<(u64, Option<Error>)> {
    let (known, versions) = rows::fence_columns(known);
    let before = before.map(ClaimNumber::as_int4);
    let (mut released, mut held) = (0, None);
    for range in ranges(shared).await? {
        let (from, to) = (range.from(), range.to());
        let params: [&(dyn ToSql + Sync); 6] = [&node.0, &known, &versions, &before, &from, &to];
        let answers = match shared.engine(TRIED, &shared.sql.release_unknown, &params).await {
            Err(error) if may_be_of_rows(&error) => {
                let (answers, left) = release_around(shared, &params).await?;
                held = left.or(Some(error));
                answers
            }
            answer => vec![answer?],
        };
        released += answers.iter().map(|answer| answer.len() as u64).sum::<u64>();
    }
    // Runs after the walk, which waited for the cancellations of the rows it met.
    let params: [&(dyn ToSql + Sync); 4] = [&node.0, &known, &versions, &before];
    shared.engine("free what unknown handlers held", &shared.sql.unknown_terminating, &params).await?;
    Ok((released, held))
}

/// Releases what a statement of these parameters could not release, but for rows that are locked or refused. Returns the answers, and why rows
/// are refused, if any are.
async fn release_around(
    shared: &Arc<Shared>,
    params: &[&(dyn ToSql + Sync); 6],
) -> Result<(Vec<Vec<Row>>, Option<Error>)> {
    let free = &shared.sql.release_unknown_free;
    let all: Vec<&(dyn ToSql + Sync)> = params.iter().copied().chain([&None::<Vec<Uuid>> as _]).collect();
    match shared.engine(TRIED, free, &all).await {
        Err(error) if may_be_of_rows(&error) => {
            let unknown = shared.engine(TRIED, &shared.sql.unknown, params).await?;
            let unknown = unknown.iter().map(|row| rows::get(row, "id")).collect::<Result<Vec<Uuid>>>()?;
            let (answers, left) = in_parts_of(shared, TRIED, (free, params), &unknown).await?;
            Ok((answers, left.or(Some(error))))
        }
        answer => Ok((vec![answer?], None)),
    }
}

pub(super) async fn release_claimed(
    shared: &Arc<Shared>,
    node: NodeId,
    claim: ClaimNumber,
    ids: &[JobId],
) -> Result<u64> {
    let ids: Vec<_> = ids.iter().map(|id| *id.as_uuid()).collect();
    let statement: (_, Params<'_>) = (&shared.sql.release_claimed, &[&node.0, &claim.as_int4()]);
    let (answers, left) = in_parts_of(shared, TRIED, statement, &ids).await?;
    let released = answers.iter().map(|rows| rows.len() as u64).sum();
    let params: [&(dyn ToSql + Sync); 3] = [&node.0, &claim.as_int4(), &ids];
    shared.engine("free what unknown handlers held", &shared.sql.claimed_terminating, &params).await?;
    match left {
        // The transaction that holds them ends some time. What the application refuses is looked for again with all that may have got lost.
        Some(error) if error.is_undecided() => Err(error),
        _ => Ok(released),
    }
}

/// Releases what handlers held whose jobs were cancelled. `node` is `None` for external workers.
pub(super) async fn handlers_ended(shared: &Arc<Shared>, node: Option<NodeId>, fences: &[Fence]) -> Result<u64> {
    if fences.is_empty() {
        return Ok(0);
    }
    let (ids, versions) = rows::fence_columns(fences);
    let params: [&(dyn ToSql + Sync); 3] = [&node.map(|node| node.0), &ids, &versions];
    let answer = shared.engine("free what a handler held", &shared.sql.handlers_ended, &params).await?;
    Ok(answer.len() as u64)
}
