//! Taking jobs, and recording how they ended.

use std::collections::HashSet;
use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::counting;
use super::front::{Front, usable};
use super::range::Ranges;
use super::types::{has_key, holding, holds, keyed, tid};
use super::unreadable::{Found, clear_away, settle_all, sort_out};
use super::{Shared, rows};
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

/// What a claim would find.
async fn waiting(shared: &Arc<Shared>, request: &ClaimRequest<'_>) -> Result<Vec<Found>> {
    let ranges = Ranges::of(&request.part, None);
    let (limit, held_too) = (rows::count(request.limit), request.held_too);
    waiting_in(shared, request.queue, &ranges, request.kinds, held_too, limit).await
}

/// What waits in these parts of a queue.
pub(super) async fn waiting_in(
    shared: &Arc<Shared>,
    queue: &str,
    ranges: &Ranges,
    kinds: Option<&[String]>,
    held_too: bool,
    limit: i64,
) -> Result<Vec<Found>> {
    let params: [&(dyn ToSql + Sync); 8] =
        [&queue, &ranges.ranks, &ranges.after, &ranges.last_ranks, &ranges.last_seqs, &kinds, &held_too, &limit];
    let rows = shared.engine("look for waiting jobs", &shared.sql.waiting, &params).await?;
    rows.iter().map(Found::read).collect()
}

async fn claim_once(shared: &Arc<Shared>, request: &ClaimRequest<'_>) -> Result<Claimed> {
    if !request.counted.is_empty() {
        return counting::claim(shared, request).await;
    }
    let front = Front::of(request, &shared.config.schema);
    let ranges = Ranges::of(&request.part, usable(request));
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
                &request.held_too,
                &front.as_ref().map(|front| &front.register),
                &front.as_ref().map(|front| front.tag),
                &front.as_ref().map(|front| front.own),
                &front.as_ref().map(|front| front.span),
                &ranges.last_seqs,
                &front.as_ref().map(|front| front.rank),
                &request.claim.as_int4(),
            ],
        )
        .await?;
    let began = match front {
        Some(_) => rows.iter().find_map(|row| rows::get(row, 15).transpose()).transpose()?,
        None => None,
    };
    // An UPDATE returns rows in no promised order.
    let (jobs, unreadable) = sort_out(&rows, |_| Ok(request.queue))?;
    settle_all(shared, Some(request.node), &unreadable).await;
    Ok(Claimed { jobs, began, allowed: None })
}

/// Takes what deliveries name.
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

/// Jobs of rows that name their queue too, best first.
pub(super) async fn queued(shared: &Arc<Shared>, node: Option<NodeId>, rows: &[Row]) -> Result<Vec<Job>> {
    let (jobs, unreadable) = sort_out(rows, |row| rows::get(row, 15))?;
    settle_all(shared, node, &unreadable).await;
    Ok(jobs)
}

/// Fences as one array a column.
pub(super) fn columns(fences: &[Fence]) -> (Vec<Uuid>, Vec<i64>) {
    fences.iter().map(|fence| (*fence.id.as_uuid(), fence.version)).unzip()
}

pub(super) fn job(row: &Row, queue: &str) -> Result<Job> {
    let (terms, admitted, mut place) = (rows::terms(row, 12)?, rows::get(row, 13)?, rows::place(row, 14)?);
    // An ordered job may hold its group when its row is gone.
    if admitted && !terms.ordered {
        place = holding(place);
    }
    if terms.unique.is_some() {
        place = keyed(place);
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
        terms,
        admitted,
        place,
    })
}

pub(super) async fn complete(shared: &Arc<Shared>, node: NodeId, fences: &[Fence]) -> Result<Vec<JobId>> {
    let leaves = |fence: &Fence| holds(fence.place) || has_key(fence.place);
    if fences.iter().all(|fence| !leaves(fence)) {
        return complete_at(shared, node, fences).await;
    }
    // What leaves nothing behind pays nothing.
    let (leaving, plain): (Vec<Fence>, Vec<Fence>) = fences.iter().copied().partition(leaves);
    let mut accepted = complete_at(shared, node, &leaving).await?;
    if !plain.is_empty() {
        accepted.extend(complete_at(shared, node, &plain).await?);
    }
    Ok(accepted)
}

/// With the simplest statement that gives back all that one of them holds.
async fn complete_at(shared: &Arc<Shared>, node: NodeId, fences: &[Fence]) -> Result<Vec<JobId>> {
    let Some(places) = fences.iter().map(|fence| tid(fence.place)).collect::<Option<Vec<_>>>() else {
        return complete_by_id(shared, node, fences).await;
    };
    let (ids, versions) = columns(fences);
    let holding = fences.iter().any(|fence| holds(fence.place));
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![&node.0, &ids, &versions, &places];
    let statement = if fences.iter().any(|fence| has_key(fence.place)) {
        params.push(&holding);
        &shared.sql.complete_keyed
    } else if holding {
        &shared.sql.complete_holding
    } else {
        &shared.sql.complete_at
    };
    let mut accepted = ids_of(&shared.engine("complete jobs", statement, &params).await?)?;
    // What is not where it was claimed was moved by somebody, such as `VACUUM FULL`, or is no longer ours. The index knows.
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
    // The statements find a job's outcome by its place, so a batch that names a job twice (an old claim and a newer one)
    // takes two rounds.
    while !settled.is_empty() {
        let round = take_round(&mut settled);
        accepted.extend(settle_round(shared, node, &round).await?);
    }
    while !released.is_empty() {
        let round = take_round(&mut released);
        accepted.extend(release_round(shared, node, &round).await?);
    }
    Ok(accepted)
}

/// Takes each job's first outcome and leaves the others.
pub(super) fn take_round<'a>(settlements: &mut Vec<&'a Settlement>) -> Vec<&'a Settlement> {
    first_of_each(settlements, |settlement| settlement.fence.id)
}

/// Takes what comes first of each id and leaves the others: the statements that follow find a row's part by its place.
pub(super) fn first_of_each<'a, T>(all: &mut Vec<&'a T>, id: impl Fn(&T) -> JobId) -> Vec<&'a T> {
    let mut seen = HashSet::with_capacity(all.len());
    let (round, rest) = all.drain(..).partition(|one| seen.insert(id(one)));
    *all = rest;
    round
}

async fn settle_round(shared: &Arc<Shared>, node: NodeId, round: &[&Settlement]) -> Result<Vec<JobId>> {
    let Columns { ids, versions, errors, details } = Columns::new(round);
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

async fn release_round(shared: &Arc<Shared>, node: NodeId, round: &[&Settlement]) -> Result<Vec<JobId>> {
    let Columns { ids, versions, errors, details } = Columns::new(round);
    let rows =
        shared.engine("give jobs back", &shared.sql.release, &[&node.0, &ids, &versions, &errors, &details]).await?;
    ids_of(&rows)
}

/// What both kinds of outcome have.
pub(super) struct Columns<'a> {
    pub(super) ids: Vec<Uuid>,
    pub(super) versions: Vec<i64>,
    pub(super) errors: Vec<Option<&'a str>>,
    pub(super) details: Vec<Option<&'a str>>,
}

impl<'a> Columns<'a> {
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
        // Goes by a statement of its own.
        Verdict::Release => ("release", 0),
    }
}

pub(super) fn ids_of(rows: &[Row]) -> Result<Vec<JobId>> {
    rows.iter().map(|row| rows::get::<Uuid>(row, 0).map(JobId::from)).collect()
}
