//! Claims jobs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::types::ToSql;

use super::range::Ranges;
use super::shared::Shared;
use super::shared_cursor::{CursorRegister, usable};
use super::unreadable::{Found, claimed, clear_away};
use super::{counting, rows};
use crate::error::Result;
use crate::store::{ClaimRequest, Claimed};

/// How long a claim that meets nothing but rows that can't be read goes on: whoever sends many of them must not make a queue look empty.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) async fn claim(shared: &Arc<Shared>, request: &ClaimRequest<'_>) -> Result<Claimed> {
    let began = Instant::now();
    loop {
        let (claimed, rows) = match claim_once(shared, request).await {
            Err(error) if clear_away(shared, &error, request.node, waiting(shared, request)).await => {
                claim_once(shared, request).await?
            }
            claimed => claimed?,
        };
        if rows == 0 || !claimed.jobs.is_empty() || began.elapsed() > PATIENCE {
            return Ok(claimed);
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
