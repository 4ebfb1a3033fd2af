//! Claims jobs: those that wait, those that deliveries name, and suspects. Gives back what got lost on the way.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::around::may_be_of_rows;
use super::client::Params;
use super::database::Postgres;
use super::parts::in_parts_of;
use super::range::Ranges;
use super::shared::Shared;
use super::shared_cursor::{CursorRegister, usable};
use super::unreadable::{Found, claimed, clear_away};
use super::walk::Pages;
use super::{counting, rows};
use crate::error::{Error, Result};
use crate::job::{ClaimNumber, Fence, Job, JobId, NodeId};
use crate::store::{Acquitted, ClaimRequest, Claimed, Claims, Suspect};

/// How long a claim that meets nothing but rows that can't be read goes on: whoever sends many of them must not make a queue look empty.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a release of jobs of a living node is called in messages.
const TRIED: &str = "release jobs that were lost on the way";

#[async_trait]
impl Claims for Postgres {
    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claimed> {
        let began = Instant::now();
        loop {
            let (claimed, rows) = match claim_once(&self.0, request).await {
                Err(error) if clear_away(&self.0, &error, request.node, waiting(&self.0, request)).await => {
                    claim_once(&self.0, request).await?
                }
                claimed => claimed?,
            };
            if rows == 0 || !claimed.jobs.is_empty() || began.elapsed() > PATIENCE {
                return Ok(claimed);
            }
        }
    }

    async fn claim_delivered(
        &self,
        node: NodeId,
        claim: ClaimNumber,
        deliveries: &[Fence],
        kinds: Option<&[String]>,
    ) -> Result<Vec<Job>> {
        let shared = &self.0;
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

    async fn suspects(&self, queues: &[String], kinds: Option<&[String]>, limit: usize) -> Result<Vec<Suspect>> {
        let rows =
            self.0.engine("look for suspects", &self.0.sql.suspects, &[&queues, &kinds, &rows::count(limit)]).await?;
        rows.iter()
            .map(|row| {
                let id: Uuid = rows::get(row, "id")?;
                Ok(Suspect {
                    id: id.into(),
                    version: rows::get(row, "version")?,
                    attempt: rows::attempts(rows::get(row, "attempt")?),
                    queue: rows::get(row, "queue")?,
                    kind: rows::get(row, "kind")?,
                    needs_permits: rows::get(row, "needs_permits")?,
                })
            })
            .collect()
    }

    async fn acquit(&self, ids: &[JobId]) -> Result<Acquitted> {
        let ids: Vec<_> = ids.iter().map(|id| *id.as_uuid()).collect();
        let rows = self.0.engine("acquit suspects", &self.0.sql.acquit, &[&ids]).await?;
        let mut acquitted = Acquitted::default();
        let mut queues = BTreeSet::new();
        for row in &rows {
            match rows::get::<Option<String>>(row, "queue")? {
                Some(queue) => {
                    queues.insert(queue);
                }
                None => acquitted.locked += 1,
            }
        }
        acquitted.queues = queues.into_iter().collect();
        Ok(acquitted)
    }

    async fn release_unknown(&self, node: NodeId, known: &[Fence], before: Option<ClaimNumber>) -> Result<u64> {
        match release_free(&self.0, node, known, before).await? {
            // The transaction that holds them ends some time. The others are released by now.
            (released, Some(error)) if error.is_undecided() => {
                tracing::debug!(released, "released jobs that were lost on the way, but for rows that are locked");
                Err(error)
            }
            // What the application refuses is looked for again with the next routine look.
            (released, _) => Ok(released),
        }
    }

    async fn release_claimed(&self, node: NodeId, claim: ClaimNumber, ids: &[JobId]) -> Result<u64> {
        let ids: Vec<_> = ids.iter().map(|id| *id.as_uuid()).collect();
        let statement: (_, Params<'_>) = (&self.0.sql.release_claimed, &[&node.0, &claim.as_int4()]);
        let (answers, left) = in_parts_of(&self.0, TRIED, statement, &ids).await?;
        let released = answers.iter().map(|rows| rows.len() as u64).sum();
        let params: [&(dyn ToSql + Sync); 3] = [&node.0, &claim.as_int4(), &ids];
        self.0.engine("free groups and permits of unknown handlers", &self.0.sql.claimed_terminating, &params).await?;
        match left {
            // The transaction that holds them ends some time. What the application refuses is looked for again with all that may have got lost.
            Some(error) if error.is_undecided() => Err(error),
            _ => Ok(released),
        }
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

/// Returns the jobs, and how many rows were claimed: those that can't be read became dead letters.
async fn claim_once(shared: &Arc<Shared>, request: &ClaimRequest<'_>) -> Result<(Claimed, usize)> {
    if !request.counted.is_empty() {
        return counting::claim(shared, request).await;
    }
    let shared_cursor = CursorRegister::of(request, &shared.config.schema);
    let ranges = Ranges::of(&request.range, usable(request));
    let rows = shared
        .engine_once(
            "claim jobs",
            if request.suspects { &shared.sql.claim_suspect } else { &shared.sql.claim },
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
        Some(_) => rows.iter().find_map(|row| rows::get(row, "reserved_from").transpose()).transpose()?,
        None => None,
    };
    let claimed = Claimed { jobs: claimed(shared, request.node, &rows).await?, reserved_from, allowed: None };
    Ok((claimed, rows.len()))
}

/// Returns the ranges of a walk over all current jobs.
pub(super) async fn pages(shared: &Arc<Shared>) -> Result<Vec<Pages>> {
    let answer = shared.engine("ask how many pages the jobs take", &shared.sql.job_pages, &[]).await?;
    let pages: i64 = rows::get(rows::single(&answer)?, 0)?;
    Ok(shared.walked.ranges(pages.unsigned_abs()))
}

/// Releases what a node owns without knowing it, but for what it knows. Also returns an error if rows were left because other transactions have
/// locked them, or because the application refuses it.
pub(super) async fn release_free(
    shared: &Arc<Shared>,
    node: NodeId,
    known: &[Fence],
    before: Option<ClaimNumber>,
) -> Result<(u64, Option<Error>)> {
    let (known, versions) = rows::fence_columns(known);
    let before = before.map(ClaimNumber::as_int4);
    let (mut released, mut held) = (0, None);
    for range in pages(shared).await? {
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
    shared.engine("free groups and permits of unknown handlers", &shared.sql.unknown_terminating, &params).await?;
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
