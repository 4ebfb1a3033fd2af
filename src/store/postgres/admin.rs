//! What an operator asks for.

use std::sync::Arc;

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{Shared, rows};
use crate::error::Result;
use crate::job::{JobId, NodeId};
use crate::store::{
    Hint, JobDetail, JobFilter, JobState, JobSummary, NodeStatus, Page, QueueStatus, StatusReport, Steered,
};

/// PostgreSQL's time begins later than ours.
const EARLIEST: Timestamp = Timestamp::constant(-180_000_000_000, 0);

/// A filter as the statements take it.
pub(super) struct Filter<'a> {
    ids: Option<Vec<Uuid>>,
    states: Option<Vec<&'static str>>,
    asked: &'a JobFilter,
    /// Sent since and until, dead since and until.
    times: [Option<Timestamp>; 4],
}

impl<'a> From<&'a JobFilter> for Filter<'a> {
    fn from(filter: &'a JobFilter) -> Self {
        Self {
            ids: filter.ids.as_ref().map(|ids| ids.iter().map(|id| *id.as_uuid()).collect()),
            states: filter.states.as_ref().map(|states| states.iter().map(|state| state.as_str()).collect()),
            asked: filter,
            times: [filter.created.since, filter.created.until, filter.dead.since, filter.dead.until].map(moment),
        }
    }
}

/// A moment as PostgreSQL can have it.
pub(super) fn moment(moment: Option<Timestamp>) -> Option<Timestamp> {
    moment.map(|moment| moment.max(EARLIEST))
}

impl Filter<'_> {
    /// The parameters of a statement: first the filter's, then its own.
    pub(super) fn params<'p>(&'p self, own: &[&'p (dyn ToSql + Sync)]) -> Vec<&'p (dyn ToSql + Sync)> {
        let JobFilter { queue, kind, error, .. } = self.asked;
        let [sent_since, sent_until, dead_since, dead_until] = &self.times;
        let filter: [&(dyn ToSql + Sync); 9] =
            [&self.ids, &self.states, queue, kind, error, sent_since, sent_until, dead_since, dead_until];
        filter.into_iter().chain(own.iter().copied()).collect()
    }
}

pub(super) async fn list(shared: &Arc<Shared>, filter: &JobFilter, page: &Page) -> Result<Vec<JobSummary>> {
    let filter = Filter::from(filter);
    let after = page.after.unwrap_or(i64::MIN);
    let limit = rows::count(page.limit);
    let rows = shared.engine("list jobs", &shared.sql.list, &filter.params(&[&after, &limit])).await?;
    rows.iter().map(summary).collect()
}

fn summary(row: &Row) -> Result<JobSummary> {
    Ok(JobSummary {
        id: JobId::from(rows::get::<Uuid>(row, 0)?),
        seq: rows::get(row, 1)?,
        state: rows::get::<&str>(row, 2)?.parse()?,
        kind: rows::get(row, 3)?,
        queue: rows::get(row, 4)?,
        priority: rows::get(row, 5)?,
        attempt: rows::attempts(rows::get(row, 6)?),
        max_attempts: rows::attempts(rows::get(row, 7)?),
        created_at: rows::get(row, 8)?,
        due_at: rows::get(row, 9)?,
        owner: rows::get::<Option<i64>>(row, 10)?.map(NodeId),
        claimed_at: rows::get(row, 11)?,
        last_error: rows::get(row, 12)?,
    })
}

pub(super) async fn show(shared: &Arc<Shared>, id: JobId) -> Result<Option<JobDetail>> {
    let rows = shared.engine("show a job", &shared.sql.show, &[id.as_uuid()]).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let dead_at: Option<Timestamp> = rows::get(row, 14)?;
    let reason: Option<String> = rows::get(row, 15)?;
    Ok(Some(JobDetail {
        summary: summary(row)?,
        version: rows::get(row, 13)?,
        dead: dead_at.map(|at| (at, reason.unwrap_or_default())),
        payload: rows::payload(row, 16)?,
        headers: rows::headers(row, 19)?,
        errors: rows::json(row, 20)?,
        terms: rows::terms(row, 21)?,
        gate: rows::get(row, 22)?,
    }))
}

/// What can be done to jobs that match a filter.
#[derive(Clone, Copy)]
pub(super) enum Steer {
    Cancel,
    Delete,
}

impl Steer {
    /// The states it works on.
    fn states(self) -> Vec<&'static str> {
        let states: &[JobState] = match self {
            Self::Cancel => &[
                JobState::Waiting,
                JobState::Blocked,
                JobState::Running,
                JobState::External,
                JobState::Timer,
                JobState::Suspended,
            ],
            Self::Delete => {
                &[JobState::Waiting, JobState::Blocked, JobState::Timer, JobState::Suspended, JobState::Dead]
            }
        };
        states.iter().map(|state| state.as_str()).collect()
    }
}

pub(super) async fn steer(shared: &Arc<Shared>, steer: Steer, filter: &JobFilter, dry_run: bool) -> Result<Steered> {
    let filter = Filter::from(filter);
    let sql = &shared.sql;
    let rows = if dry_run {
        shared.engine("count jobs", &sql.count, &filter.params(&[&steer.states()])).await?
    } else {
        let (what, statement) = match steer {
            Steer::Cancel => ("cancel jobs", &sql.cancel),
            Steer::Delete => ("delete jobs", &sql.delete),
        };
        shared.engine_once(what, statement, &filter.params(&[])).await?
    };
    // What is gone may have held what others wait for.
    if !dry_run && let Err(error) = super::hints::notify(shared, &[Hint::Gate]).await {
        tracing::debug!(%error, "executors were not woken; they will find the jobs when they poll");
    }
    steered(&rows)
}

/// Reads states with their counts.
pub(super) fn steered(rows: &[Row]) -> Result<Steered> {
    let mut steered = Steered::default();
    for row in rows {
        let count: i64 = rows::get(row, 1)?;
        if count > 0 {
            steered.0.insert(rows::get::<&str>(row, 0)?.parse()?, count.unsigned_abs());
        }
    }
    Ok(steered)
}

pub(super) async fn status(shared: &Arc<Shared>) -> Result<StatusReport> {
    let queues = shared.engine("count queues", &shared.sql.status_queues, &[]).await?;
    let nodes = shared.engine("list nodes", &shared.sql.status_nodes, &[]).await?;
    let count = |row, column| rows::get::<i64>(row, column).map(i64::unsigned_abs);
    Ok(StatusReport {
        queues: queues
            .iter()
            .map(|row| {
                Ok(QueueStatus {
                    queue: rows::get(row, 0)?,
                    waiting: count(row, 1)?,
                    running: count(row, 2)?,
                    timer: count(row, 3)?,
                    overdue: count(row, 4)?,
                    suspended: count(row, 5)?,
                    dead: count(row, 6)?,
                    external: count(row, 7)?,
                    blocked: count(row, 8)?,
                    oldest_waiting_seconds: rows::get(row, 9)?,
                })
            })
            .collect::<Result<_>>()?,
        nodes: nodes
            .iter()
            .map(|row| {
                Ok(NodeStatus {
                    id: NodeId(rows::get(row, 0)?),
                    name: rows::get(row, 1)?,
                    host: rows::get(row, 2)?,
                    pid: u32::try_from(rows::get::<i64>(row, 3)?).unwrap_or_default(),
                    started_at: rows::get(row, 4)?,
                    lease_seconds_left: rows::get(row, 5)?,
                    dead: rows::get(row, 6)?,
                    running: count(row, 7)?,
                    broker: rows::get(row, 8)?,
                })
            })
            .collect::<Result<_>>()?,
    })
}
