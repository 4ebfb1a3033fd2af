//! The queries and actions of operators: lists, details, counts and status.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::types::JsonString;
use super::unreadable::refusal;
use super::{Shared, rows};
use crate::error::Result;
use crate::job::{JobId, NodeId, Payload};
use crate::store::{AffectedJobs, JobDetail, JobFilter, JobSummary, NodeStatus, Page, QueueStatus, StatusReport};

/// PostgreSQL's range of timestamps begins later than jiff's.
const EARLIEST: Timestamp = Timestamp::constant(-180_000_000_000, 0);

/// A filter in the form that the statements take.
pub(super) struct Filter<'a> {
    ids: Option<Vec<Uuid>>,
    states: Option<Vec<&'static str>>,
    asked: &'a JobFilter,
    /// Created since and until, dead since and until.
    times: [Option<Timestamp>; 4],
    /// Fields that the job's options must contain.
    options: Option<JsonString>,
}

impl<'a> From<&'a JobFilter> for Filter<'a> {
    fn from(filter: &'a JobFilter) -> Self {
        Self {
            ids: filter.ids.as_ref().map(|ids| ids.iter().map(|id| *id.as_uuid()).collect()),
            states: filter.states.as_ref().map(|states| states.iter().map(|state| state.as_str()).collect()),
            asked: filter,
            times: [filter.created.since, filter.created.until, filter.dead.since, filter.dead.until].map(moment),
            options: options(filter),
        }
    }
}

/// Returns the filter's demands on a job's options, as an object that the options must contain.
fn options(filter: &JobFilter) -> Option<JsonString> {
    let asked = [("tenant", &filter.tenant), ("group", &filter.group), ("limit", &filter.limit_key)];
    let asked: BTreeMap<_, _> = asked.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))).collect();
    (!asked.is_empty()).then(|| JsonString(serde_json::json!(asked).to_string()))
}

/// Limits a timestamp to the range of PostgreSQL.
pub(super) fn moment(moment: Option<Timestamp>) -> Option<Timestamp> {
    moment.map(|moment| moment.max(EARLIEST))
}

impl Filter<'_> {
    /// Returns the parameters of a statement: the filter's first, then its own.
    pub(super) fn params<'p>(&'p self, own: &[&'p (dyn ToSql + Sync)]) -> Vec<&'p (dyn ToSql + Sync)> {
        let JobFilter { queue, kind, error, .. } = self.asked;
        let [sent_since, sent_until, dead_since, dead_until] = &self.times;
        let filter: [&(dyn ToSql + Sync); 10] = [
            &self.ids,
            &self.states,
            queue,
            kind,
            error,
            sent_since,
            sent_until,
            dead_since,
            dead_until,
            &self.options,
        ];
        filter.into_iter().chain(own.iter().copied()).collect()
    }
}

pub(super) async fn list(shared: &Arc<Shared>, filter: &JobFilter, page: &Page) -> Result<Vec<JobSummary>> {
    let filter = Filter::from(filter);
    let after = page.after.unwrap_or(i64::MIN);
    let limit = rows::count(page.limit);
    let sql = &shared.sql;
    // An index finds ids; anything else is read in the order of the page.
    let statement = if filter.ids.is_some() { &sql.list_ids } else { &sql.list };
    let rows = shared.engine_filtered("list jobs", statement, &filter.params(&[&after, &limit])).await?;
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
    let mut missing = None;
    let rows = match shared.engine("show a job", &shared.sql.show, &[id.as_uuid()]).await {
        Ok(rows) => rows,
        // The payload can't be read, but the rest of the job is worth showing.
        Err(error) => {
            missing = refusal(&error);
            if missing.is_none() {
                return Err(error);
            }
            shared.engine("show a job", &shared.sql.show_bare, &[id.as_uuid()]).await?
        }
    };
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let dead_at: Option<Timestamp> = rows::get(row, 14)?;
    let reason: Option<String> = rows::get(row, 15)?;
    Ok(Some(JobDetail {
        summary: summary(row)?,
        version: rows::get(row, 13)?,
        dead: dead_at.map(|at| (at, reason.unwrap_or_default())),
        payload: missing.map_or_else(|| rows::payload(row, 16), |why| Ok(Payload::text(why)))?,
        headers: rows::headers(row, 19)?,
        errors: rows::json(row, 20)?,
        // This is for display only, so options that can't be read are left out. The reason of such a dead letter explains why.
        options: rows::options(row, 21).unwrap_or_default(),
        blocked_on: rows::get(row, 22)?,
    }))
}

/// Reads states with their counts.
pub(super) fn affected(rows: &[Row]) -> Result<AffectedJobs> {
    let mut affected = AffectedJobs::default();
    for row in rows {
        let count: i64 = rows::get(row, 1)?;
        if count > 0 {
            affected.0.insert(rows::get::<&str>(row, 0)?.parse()?, count.unsigned_abs());
        }
    }
    Ok(affected)
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
