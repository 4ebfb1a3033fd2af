//! Actions of operators: see `store::job_operations`.

use std::sync::Arc;
use uuid::Uuid;

use super::audit::Audit;
use super::client::Params;
use super::engine_transaction::EngineTransaction;
use super::filter::{Filter, affected};
use super::shared::Shared;
use super::statements::Statement;
use super::unreadable::refusal;
use super::{retry, rows};
use crate::error::Result;
use crate::job::{JobId, NodeId};
use crate::store::job_operations::{Chunk, check_name, what};
use crate::store::{Action, AffectedJobs, Change, DueChange, JobFilter, JobState, OperatorOptions, Released};

/// How many jobs of a dead node are released in one transaction.
const RELEASED: usize = 500;

pub(super) async fn operate(
    shared: &Arc<Shared>,
    filter: &JobFilter,
    action: &Action,
    operator: OperatorOptions<'_>,
) -> Result<AffectedJobs> {
    action.check()?;
    check_name(operator.by)?;
    if operator.dry_run {
        return count(shared, filter, action).await;
    }
    let mut audit = Audit { by: operator.by, action: action.as_str(), what: what(filter, action), entry: None };
    let mut all = AffectedJobs::default();
    let mut left: Vec<Chunk> = parts(shared, filter, action).await?;
    left.reverse();
    let alone = left.iter().all(Chunk::is_single);
    let mut refused = None;
    while let Some(part) = left.pop().filter(|_| !operator.is_cut_short()) {
        let batch = EngineTransaction::begin_planned(shared, "steer jobs").await?;
        match operate_on_chunk(shared, &batch, &part, action).await {
            Ok(some) => all.add(&some),
            // A job that can't be moved stays where it is, and the others go on.
            Err(error) if !alone && refusal(&error).is_some() => {
                drop(batch);
                match part.halves() {
                    Some([first, second]) => left.extend([second, first]),
                    None => {
                        tracing::error!(ids = ?part.filter.ids, %error, "a job stays as it is, because this can't be done to it");
                        refused = Some(error);
                    }
                }
                continue;
            }
            Err(error) => return Err(error),
        }
        audit.write(&batch, shared, &all).await?;
        batch.commit().await?;
        operator.note(&all);
    }
    if all.total() == 0
        && let Some(error) = refused
    {
        return Err(error);
    }
    if let Err(error) = super::hints::notify(shared, &[action.hint()]).await {
        tracing::debug!(%error, "executors were not woken; they will find the jobs when they poll");
    }
    Ok(all)
}

pub(super) async fn evict(shared: &Arc<Shared>, node: NodeId, by: Option<&str>) -> Result<Option<Released>> {
    check_name(by)?;
    let batch = EngineTransaction::begin(shared, "declare a node dead").await?;
    if batch.query(&shared.sql.evict, &[&node.0]).await?.is_empty() {
        batch.roll_back().await?;
        return Ok(None);
    }
    let mut audit = Audit { by, action: "evict", what: serde_json::json!({ "node": node }), entry: None };
    audit.write(&batch, shared, &AffectedJobs::default()).await?;
    batch.commit().await?;
    // Separate statements: a later one sees the changes that the first had to wait for.
    let mut all = Released::default();
    loop {
        let released = super::nodes::release_lost(shared, RELEASED, None).await?;
        all.waiting += released.waiting;
        all.dead += released.dead;
        all.ended += released.ended;
        if released.total() < RELEASED as u64 {
            return Ok(Some(all));
        }
    }
}

async fn count(shared: &Arc<Shared>, filter: &JobFilter, action: &Action) -> Result<AffectedJobs> {
    if let Some(options) = action.retry(true) {
        return retry::count(shared, filter, &options).await;
    }
    let states = words(action);
    let filter = Filter::from(filter);
    affected(&shared.engine_filtered("count jobs", &shared.sql.count, &filter.params(&[&states])).await?)
}

/// Returns the matching jobs in chunks of one transaction each.
async fn parts(shared: &Arc<Shared>, filter: &JobFilter, action: &Action) -> Result<Vec<Chunk>> {
    if let Some(whole) = Chunk::whole(filter, action) {
        return Ok(whole);
    }
    let states = words(action);
    let limit = action.retry(false).as_ref().and_then(retry::limit);
    let asked = Filter::from(filter);
    let rows = shared.engine_filtered("choose jobs", &shared.sql.choose, &asked.params(&[&states, &limit])).await?;
    let ids = rows::job_ids(&rows)?;
    Ok(Chunk::cut(filter, &ids))
}

async fn operate_on_chunk(
    shared: &Arc<Shared>,
    batch: &EngineTransaction,
    part: &Chunk,
    action: &Action,
) -> Result<AffectedJobs> {
    let sql = &shared.sql;
    if let Action::Retry { spread, .. } = action {
        return retry::run(shared, batch, part, *spread).await;
    }
    let part = &part.filter;
    let statement = match action {
        Action::Change(change) => return apply(shared, batch, part, change).await,
        Action::Suspend => &sql.suspend,
        Action::Resume => &sql.resume,
        Action::RunNow => &sql.run_now,
        Action::Delete => &sql.delete,
        Action::Cancel | Action::Retry { .. } => &sql.cancel,
    };
    Ok(run(batch, statement, part, &[]).await?.0)
}

/// Changes jobs. Waiting jobs that have to move pass through `suspended_job`: there they hold nothing but their group, if they are
/// ordered, and come back as if they had just been sent.
async fn apply(
    shared: &Arc<Shared>,
    batch: &EngineTransaction,
    part: &JobFilter,
    change: &Change,
) -> Result<AffectedJobs> {
    let sql = &shared.sql;
    let rank = change.priority.map(|priority| -priority);
    let attempts = change.max_attempts.map(|n| i32::try_from(n).unwrap_or(i32::MAX));
    let (at, wait) = match change.due {
        Some(DueChange::At(at)) => (rows::moment(Some(at)), None),
        Some(DueChange::In(delay)) => (None, Some(rows::micros(delay))),
        None => (None, None),
    };
    let own: Params<'_> = &[&rank, &at, &wait, &change.queue, &attempts];
    let mut all = run(batch, &sql.change_idle, part, own).await?.0;
    if !change.moves() {
        all.add(&run(batch, &sql.change_waiting, part, &[&rank, &attempts]).await?.0);
        return Ok(all);
    }
    let waiting = JobFilter { states: Some(among(part, &[JobState::Waiting, JobState::Blocked])), ..part.clone() };
    let (moved, ids) = run(batch, &sql.suspend, &waiting, &[]).await?;
    if !ids.is_empty() {
        let moved = JobFilter { states: Some(vec![JobState::Suspended]), ..JobFilter::ids(ids) };
        run(batch, &sql.change_idle, &moved, own).await?;
        run(batch, &sql.resume, &moved, &[]).await?;
    }
    all.add(&moved);
    Ok(all)
}

/// Returns those of these states that a filter does not exclude.
fn among(filter: &JobFilter, states: &[JobState]) -> Vec<JobState> {
    let wanted = |state: &JobState| filter.states.as_ref().is_none_or(|wanted| wanted.contains(state));
    states.iter().copied().filter(wanted).collect()
}

fn words(action: &Action) -> Vec<&'static str> {
    action.states().iter().map(|state| state.as_str()).collect()
}

/// Runs a statement on the matching jobs. Returns how many there were in each state, and their ids if the statement returns them.
async fn run(
    batch: &EngineTransaction,
    statement: &Statement,
    part: &JobFilter,
    own: Params<'_>,
) -> Result<(AffectedJobs, Vec<JobId>)> {
    let filter = Filter::from(part);
    let rows = batch.query(statement, &filter.params(own)).await?;
    let mut ids = Vec::new();
    for row in &rows {
        let some: Option<Vec<Uuid>> = rows::get(row, "ids")?;
        ids.extend(some.unwrap_or_default().into_iter().map(JobId::from));
    }
    Ok((affected(&rows)?, ids))
}
