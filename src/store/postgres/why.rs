//! The facts about jobs that do not run.

use std::sync::Arc;

use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::rows;
use super::shared::Shared;
use crate::error::Result;
use crate::job::{JobId, NodeId};
use crate::store::{Holder, JobPosition, JobState, KeyQuestion, KeyUse, ServingNode, WaitingClass};

pub(super) async fn serving_nodes(shared: &Arc<Shared>) -> Result<Vec<ServingNode>> {
    let nodes = shared.engine("list nodes", &shared.sql.serving_nodes, &[]).await?;
    let read = |row| {
        Ok(ServingNode {
            id: NodeId(rows::get(row, "id")?),
            name: rows::get(row, "name")?,
            dead: rows::get(row, "dead")?,
            alive: rows::get(row, "alive")?,
            broker: rows::get(row, "broker")?,
            serves: rows::json(row, "serves")?,
            left_alone: rows::json(row, "left_alone")?,
            failing: rows::json(row, "failing")?,
        })
    };
    nodes.iter().map(read).collect()
}

pub(super) async fn position(shared: &Arc<Shared>, id: JobId) -> Result<JobPosition> {
    let found = shared.engine("find out where a job is", &shared.sql.job_position, &[id.as_uuid()]).await?;
    let row = rows::single(&found)?;
    Ok(JobPosition {
        now: rows::get::<Timestamp>(row, "now")?,
        hidden_until: rows::some_time(row, "visible_at")?,
        lease_until: rows::some_time(row, "lease_until")?,
        worker: rows::get(row, "worker")?,
        admitted: rows::get(row, "admitted")?,
        before: rows::counted(row, "before")?,
        running: rows::counted(row, "running")?,
    })
}

pub(super) async fn key_uses(shared: &Arc<Shared>, asked: &[KeyQuestion]) -> Result<Vec<KeyUse>> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<&str> = asked.iter().map(|one| one.key.as_str()).collect();
    let periods: Vec<i64> = asked.iter().map(|one| one.period).collect();
    let uses = shared.engine("look at permits", &shared.sql.key_uses, &[&keys, &periods]).await?;
    let holders = shared.engine("look at permits", &shared.sql.key_holders, &[&keys]).await?;
    let read = |row| {
        let key: String = rows::get(row, "key")?;
        let of_key = |row: &&Row| rows::get::<&str>(row, "key").is_ok_and(|other| other == key);
        let holders = holders.iter().filter(of_key).filter_map(|row| holder(row).transpose());
        let holders = holders.collect::<Result<_>>()?;
        let first_start = rows::some_time(row, "first_start")?;
        Ok(KeyUse {
            taken: rows::counted(row, "taken")?,
            holders,
            starts: rows::counted(row, "starts")?,
            first_start,
            key,
        })
    };
    uses.iter().map(read).collect()
}

/// `None`: the permit's holder has gone since, or never was; a look for such permits takes it back.
fn holder(row: &Row) -> Result<Option<Holder>> {
    if let Some(id) = rows::get::<Option<Uuid>>(row, "handler_of")? {
        return Ok(Some(Holder::Handler { id: id.into() }));
    }
    if let Some(node) = rows::get::<Option<i32>>(row, "node")? {
        return Ok(Some(Holder::Node { id: NodeId(node.into()), jobs: rows::counted(row, "jobs")? }));
    }
    let (Some(id), Some(kind)) = (rows::get::<Option<Uuid>>(row, "job_id")?, rows::get(row, "kind")?) else {
        return Ok(None);
    };
    let state: JobState = rows::get::<&str>(row, "state")?.parse()?;
    Ok(Some(Holder::Job { id: id.into(), kind, state, since: rows::some_time(row, "claimed_at")? }))
}

pub(super) async fn waiting_classes(
    shared: &Arc<Shared>,
    queue: Option<&str>,
    kind: Option<&str>,
) -> Result<Vec<WaitingClass>> {
    let classes =
        shared.engine_filtered("sort the waiting jobs", &shared.sql.waiting_classes, &[&queue, &kind]).await?;
    let read = |row| {
        Ok(WaitingClass { jobs: rows::counted(row, "jobs")?, first: JobId::from(rows::get::<Uuid>(row, "first")?) })
    };
    classes.iter().map(read).collect()
}
