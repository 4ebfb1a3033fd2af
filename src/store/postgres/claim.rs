//! Claims jobs and records their outcomes.

use std::collections::HashSet;
use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::range::Ranges;
use super::shared_cursor::{CursorRegister, usable};
use super::types::{has_key, holding, holds, keyed, tid};
use super::unreadable::{Found, clear_away, settle_all, sort_out};
use super::{Shared, counting, rows};
use crate::error::Result;
use crate::job::{ClaimNumber, Fence, Job, JobId, NodeId};
use crate::store::{ClaimRequest, Claimed, Settlement, Verdict};

pub(super) async fn claim(shared: &Arc<Shared>, request: &ClaimRequest<'_>) -> Result<Claimed> {
    match claim_once(shared, request).await {
        Err(error) if clear_away(shared, &error, request.node, waiting(shared, request)).await => {
            claim_once(shared, request).await
        }
        claimed => claimed,
    }
}

/// Lists the jobs that a claim would find.
async fn waiting(shared: &Arc<Shared>, request: &ClaimRequest<'_>) -> Result<Vec<Found>> {
    let ranges = Ranges::of(&request.range, None);
    let (limit, include_hidden) = (rows::count(request.limit), request.include_hidden);
    waiting_in(shared, request.queue, &ranges, request.kinds, include_hidden, limit).await
}

/// Lists the jobs that wait in these ranges of a queue.
pub(super) async fn waiting_in(
    shared: &Arc<Shared>,
    queue: &str,
    ranges: &Ranges,
    kinds: Option<&[String]>,
    include_hidden: bool,
    limit: i64,
) -> Result<Vec<Found>> {
    let params: [&(dyn ToSql + Sync); 8] =
        [&queue, &ranges.ranks, &ranges.after, &ranges.last_ranks, &ranges.last_seqs, &kinds, &include_hidden, &limit];
    let rows = shared.engine("look for waiting jobs", &shared.sql.waiting, &params).await?;
    rows.iter().map(Found::read).collect()
}

async fn claim_once(shared: &Arc<Shared>, request: &ClaimRequest<'_>) -> Result<Claimed> {
    if !request.counted.is_empty() {
        return counting::claim(shared, request).await;
    }
    let shared_cursor = CursorRegister::of(request, &shared.config.schema);
    let ranges = Ranges::of(&request.range, usable(request));
    let rows = shared
        .engine_once(
            "claim jobs",
            &shared.sql.claim,
            &[
                &request.node.0,
                &request.queue,
                &ranges.ranks,
                &ranges.after,
                &ranges.last_ranks,
                &request.kinds,
                &rows::count(request.limit),
                &request.include_hidden,
                &shared_cursor.as_ref().map(|shared_cursor| &shared_cursor.register),
                &shared_cursor.as_ref().map(|shared_cursor| shared_cursor.tag),
                &shared_cursor.as_ref().map(|shared_cursor| shared_cursor.own),
                &shared_cursor.as_ref().map(|shared_cursor| shared_cursor.span),
                &ranges.last_seqs,
                &shared_cursor.as_ref().map(|shared_cursor| shared_cursor.rank),
                &request.claim.as_int4(),
            ],
        )
        .await?;
    let reserved_from = match shared_cursor {
        Some(_) => rows.iter().find_map(|row| rows::get(row, 15).transpose()).transpose()?,
        None => None,
    };
    // An UPDATE returns rows in no guaranteed order.
    let (jobs, unreadable) = sort_out(&rows, |_| Ok(request.queue))?;
    settle_all(shared, Some(request.node), &unreadable).await;
    Ok(Claimed { jobs, reserved_from, allowed: None })
}

/// Claims the jobs that deliveries name.
pub(super) async fn claim_delivered(
    shared: &Arc<Shared>,
    node: NodeId,
    claim: ClaimNumber,
    deliveries: &[Fence],
    kinds: Option<&[String]>,
) -> Result<Vec<Job>> {
    let (ids, versions) = columns(deliveries);
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
    queued(shared, Some(node), &rows).await
}

/// Reads jobs from rows that also name their queue, best first.
pub(super) async fn queued(shared: &Arc<Shared>, node: Option<NodeId>, rows: &[Row]) -> Result<Vec<Job>> {
    let (jobs, unreadable) = sort_out(rows, |row| rows::get(row, 15))?;
    settle_all(shared, node, &unreadable).await;
    Ok(jobs)
}

/// Turns fences into one array per column.
pub(super) fn columns(fences: &[Fence]) -> (Vec<Uuid>, Vec<i64>) {
    fences.iter().map(|fence| (*fence.id.as_uuid(), fence.version)).unzip()
}

pub(super) fn job(row: &Row, queue: &str) -> Result<Job> {
    let (options, admitted, mut location) = (rows::options(row, 12)?, rows::get(row, 13)?, rows::location(row, 14)?);
    // An ordered job may still hold its group after its row is gone.
    if admitted && !options.ordered {
        location = holding(location);
    }
    if options.unique.is_some() {
        location = keyed(location);
    }
    Ok(Job {
        id: JobId::from(rows::get::<Uuid>(row, 0)?),
        seq: rows::get(row, 1)?,
        version: rows::get(row, 2)?,
        kind: rows::get(row, 3)?,
        queue: queue.to_owned(),
        priority: -rows::get::<i16>(row, 4)?,
        attempt: rows::attempts(rows::get(row, 5)?),
        max_attempts: rows::attempts(rows::get(row, 6)?),
        created_at: rows::get(row, 7)?,
        payload: rows::payload(row, 8)?,
        headers: rows::headers(row, 11)?,
        options,
        admitted,
        location,
    })
}

pub(super) async fn complete(shared: &Arc<Shared>, node: NodeId, fences: &[Fence]) -> Result<Vec<JobId>> {
    let leaves = |fence: &Fence| holds(fence.location) || has_key(fence.location);
    if fences.iter().all(|fence| !leaves(fence)) {
        return complete_at(shared, node, fences).await;
    }
    // Jobs that hold nothing take the cheaper statement.
    let (leaving, plain): (Vec<Fence>, Vec<Fence>) = fences.iter().copied().partition(leaves);
    let mut accepted = complete_at(shared, node, &leaving).await?;
    if !plain.is_empty() {
        accepted.extend(complete_at(shared, node, &plain).await?);
    }
    Ok(accepted)
}

/// Completes jobs with the simplest statement that releases everything any of them holds.
async fn complete_at(shared: &Arc<Shared>, node: NodeId, fences: &[Fence]) -> Result<Vec<JobId>> {
    let Some(places) = fences.iter().map(|fence| tid(fence.location)).collect::<Option<Vec<_>>>() else {
        return complete_by_id(shared, node, fences).await;
    };
    let (ids, versions) = columns(fences);
    let holding = fences.iter().any(|fence| holds(fence.location));
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![&node.0, &ids, &versions, &places];
    let statement = if fences.iter().any(|fence| has_key(fence.location)) {
        params.push(&holding);
        &shared.sql.complete_keyed
    } else if holding {
        &shared.sql.complete_holding
    } else {
        &shared.sql.complete_at
    };
    let mut accepted = ids_of(&shared.engine("complete jobs", statement, &params).await?)?;
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
    let (ids, versions) = columns(fences);
    let rows = shared.engine("complete jobs", &shared.sql.complete, &[&node.0, &ids, &versions]).await?;
    ids_of(&rows)
}

pub(super) async fn settle(shared: &Arc<Shared>, node: NodeId, settlements: &[Settlement]) -> Result<Vec<JobId>> {
    let mut accepted = Vec::with_capacity(settlements.len());
    let (mut released, mut settled): (Vec<_>, Vec<_>) =
        settlements.iter().partition(|settlement| settlement.verdict == Verdict::Release);
    // The statements look up a job's outcome by its position in the arrays, so a batch that names a job twice (an old claim and a newer
    // one) takes two chunks.
    while !settled.is_empty() {
        let round = take_chunk(&mut settled);
        accepted.extend(settle_chunk(shared, node, &round).await?);
    }
    while !released.is_empty() {
        let round = take_chunk(&mut released);
        accepted.extend(release_chunk(shared, node, &round).await?);
    }
    Ok(accepted)
}

/// Takes each job's first outcome and leaves the others.
pub(super) fn take_chunk<'a>(settlements: &mut Vec<&'a Settlement>) -> Vec<&'a Settlement> {
    first_of_each(settlements, |settlement| settlement.fence.id)
}

/// Takes the first item of each id and leaves the others. The statements that follow look up a row's values by position.
pub(super) fn first_of_each<'a, T>(all: &mut Vec<&'a T>, id: impl Fn(&T) -> JobId) -> Vec<&'a T> {
    let mut seen = HashSet::with_capacity(all.len());
    let (round, rest) = all.drain(..).partition(|one| seen.insert(id(one)));
    *all = rest;
    round
}

async fn settle_chunk(shared: &Arc<Shared>, node: NodeId, round: &[&Settlement]) -> Result<Vec<JobId>> {
    let SettlementColumns { ids, versions, errors, details } = SettlementColumns::new(round);
    let (verdicts, delays): (Vec<&str>, Vec<i64>) = round.iter().map(|s| verdict(&s.verdict)).unzip();
    let rows = shared
        .engine(
            "record outcomes",
            &shared.sql.settle,
            &[&node.0, &ids, &versions, &verdicts, &delays, &errors, &details],
        )
        .await?;
    ids_of(&rows)
}

async fn release_chunk(shared: &Arc<Shared>, node: NodeId, round: &[&Settlement]) -> Result<Vec<JobId>> {
    let SettlementColumns { ids, versions, errors, details } = SettlementColumns::new(round);
    let rows =
        shared.engine("give jobs back", &shared.sql.release, &[&node.0, &ids, &versions, &errors, &details]).await?;
    ids_of(&rows)
}

/// The columns that both kinds of outcome share.
pub(super) struct SettlementColumns<'a> {
    pub(super) ids: Vec<Uuid>,
    pub(super) versions: Vec<i64>,
    pub(super) errors: Vec<Option<&'a str>>,
    pub(super) details: Vec<Option<&'a str>>,
}

impl<'a> SettlementColumns<'a> {
    pub(super) fn new(settlements: &[&'a Settlement]) -> Self {
        Self {
            ids: settlements.iter().map(|s| s.fence.id.into()).collect(),
            versions: settlements.iter().map(|s| s.fence.version).collect(),
            errors: settlements.iter().map(|s| s.error.as_deref()).collect(),
            details: settlements.iter().map(|s| s.detail.as_deref()).collect(),
        }
    }
}

pub(super) fn verdict(verdict: &Verdict) -> (&'static str, i64) {
    let micros = |delay: &std::time::Duration| rows::micros(*delay);
    match verdict {
        Verdict::Retry(delay) => ("retry", micros(delay)),
        Verdict::Snooze(delay) => ("snooze", micros(delay)),
        Verdict::Cancel => ("cancel", 0),
        Verdict::Dead => ("dead", 0),
        // Has its own statement.
        Verdict::Release => ("release", 0),
    }
}

pub(super) fn ids_of(rows: &[Row]) -> Result<Vec<JobId>> {
    rows.iter().map(|row| rows::get::<Uuid>(row, 0).map(JobId::from)).collect()
}
