//! Records outcomes other than success, and finds the locks that keep outcomes from being recorded.

use std::collections::HashSet;
use std::sync::Arc;

use uuid::Uuid;

use super::lock_holder::{holder, joined};
use super::rows;
use super::shared::Shared;
use crate::error::Result;
use crate::job::{JobId, NodeId};
use crate::store::{HeldJob, Settlement, Verdict};

/// Returns the jobs whose rows another transaction has locked, and which one.
pub(super) async fn held(shared: &Arc<Shared>, node: Option<NodeId>, ids: &[Uuid]) -> Result<Vec<HeldJob>> {
    let node = node.map(|node| node.0);
    let found = shared.engine("find the lock on a job", &shared.sql.held_jobs, &[&node, &ids]).await?;
    let job = |row| {
        let id = JobId::from(rows::get::<Uuid>(row, "id")?);
        Ok(HeldJob { id, held_by: joined(holder(row)?) })
    };
    found.iter().map(job).collect()
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
    rows::job_ids(&rows)
}

async fn release_chunk(shared: &Arc<Shared>, node: NodeId, round: &[&Settlement]) -> Result<Vec<JobId>> {
    let SettlementColumns { ids, versions, errors, details } = SettlementColumns::new(round);
    let rows =
        shared.engine("give jobs back", &shared.sql.release, &[&node.0, &ids, &versions, &errors, &details]).await?;
    rows::job_ids(&rows)
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
