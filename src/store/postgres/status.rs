//! The state of all queues and nodes.

use std::sync::Arc;

use super::rows;
use super::shared::Shared;
use crate::error::Result;
use crate::job::NodeId;
use crate::store::{NodeStatus, QueueStatus, StatusReport};

pub(super) async fn status(shared: &Arc<Shared>) -> Result<StatusReport> {
    let queues = shared.engine("count queues", &shared.sql.status_queues, &[]).await?;
    let nodes = shared.engine("list nodes", &shared.sql.status_nodes, &[]).await?;
    let count = |row, column| rows::get::<i64>(row, column).map(i64::unsigned_abs);
    Ok(StatusReport {
        queues: queues
            .iter()
            .map(|row| {
                Ok(QueueStatus {
                    queue: rows::get(row, "queue")?,
                    waiting: count(row, "waiting")?,
                    running: count(row, "running")?,
                    timer: count(row, "timer")?,
                    overdue: count(row, "overdue")?,
                    suspended: count(row, "suspended")?,
                    dead: count(row, "dead")?,
                    external: count(row, "external")?,
                    blocked: count(row, "blocked")?,
                    oldest_waiting_seconds: rows::get(row, "oldest_waiting_seconds")?,
                })
            })
            .collect::<Result<_>>()?,
        nodes: nodes
            .iter()
            .map(|row| {
                Ok(NodeStatus {
                    id: NodeId(rows::get(row, "id")?),
                    name: rows::get(row, "name")?,
                    host: rows::get(row, "host")?,
                    pid: u32::try_from(rows::get::<i64>(row, "pid")?).unwrap_or_default(),
                    started_at: rows::get(row, "started_at")?,
                    lease_seconds_left: rows::get(row, "lease_seconds_left")?,
                    dead: rows::get(row, "dead")?,
                    running: count(row, "running")?,
                    broker: rows::get(row, "broker")?,
                })
            })
            .collect::<Result<_>>()?,
    })
}
