//! The status of the system: one snapshot and a few aggregates.

use std::collections::BTreeMap;

use rusqlite::types::FromSqlError;
use rusqlite::{Connection, Row, named_params};

use super::liveness_files::LivenessFiles;
use super::rows::{Micros, number, timestamp};
use super::shared::Shared;
use super::why::json;
use crate::error::Result;
use crate::job::NodeId;
use crate::store::sections::section;
use crate::store::{JobState, NodeStatus, QueueStatus, StatusReport};

const SQL: &str = include_str!("status.sql");
const QUEUES: &str = section(SQL, "queues");
const NODES: &str = section(SQL, "nodes");

impl Shared {
    pub(super) async fn status(&self) -> Result<StatusReport> {
        let liveness_files = self.liveness_files.clone();
        self.query("read the status", move |connection, now| {
            let queues = queues(connection, now)?;
            let mut nodes = connection.prepare_cached(NODES)?;
            let nodes = nodes.query_map([], |row| node(row, &liveness_files))?.collect::<rusqlite::Result<_>>()?;
            Ok(StatusReport { queues, nodes })
        })
        .await
    }
}

/// Reads the counts of all queues, in the order of their names.
fn queues(connection: &Connection, now: Micros) -> rusqlite::Result<Vec<QueueStatus>> {
    let mut queues: BTreeMap<String, QueueStatus> = BTreeMap::new();
    let mut statement = connection.prepare_cached(QUEUES)?;
    let mut rows = statement.query(named_params! { ":now": now })?;
    while let Some(row) = rows.next()? {
        let name: String = row.get("queue")?;
        let new = || QueueStatus { queue: name.clone(), ..QueueStatus::default() };
        let queue = queues.entry(name.clone()).or_insert_with(new);
        let jobs = number(row, "jobs")?;
        let state: JobState = row.get::<_, String>("state")?.parse().map_err(|_| FromSqlError::InvalidType)?;
        match state {
            JobState::Waiting => {
                queue.waiting = jobs;
                queue.oldest_waiting_seconds =
                    row.get::<_, Option<Micros>>("oldest")?.map(|oldest| seconds(now - oldest).max(0.0));
            }
            JobState::Running => queue.running = jobs,
            JobState::External => queue.external = jobs,
            JobState::Timer => {
                (queue.timer, queue.overdue) = (jobs, number(row, "overdue")?);
                queue.oldest_overdue_seconds = row.get::<_, Option<Micros>>("due")?.map(|due| seconds(now - due));
            }
            JobState::Blocked => queue.blocked = jobs,
            JobState::Suspended => queue.suspended = jobs,
            JobState::Dead => queue.dead = jobs,
        }
    }
    Ok(queues.into_values().collect())
}

fn node(row: &Row<'_>, liveness_files: &LivenessFiles) -> rusqlite::Result<NodeStatus> {
    let id = row.get("id")?;
    // A time in the future, left by a clock that was set back, counts as now.
    let silent = liveness_files.last(id).map(|last| last.elapsed().unwrap_or_default().as_secs_f64());
    let lease = seconds(row.get::<_, Micros>("lease")?);
    Ok(NodeStatus {
        id: NodeId(id),
        name: row.get("name")?,
        host: row.get("host")?,
        pid: row.get("pid")?,
        started_at: timestamp(row.get("started_at")?)?,
        lease_seconds_left: silent.map_or(0.0, |silent| lease - silent),
        dead: row.get("dead")?,
        running: number(row, "running")?,
        broker: row.get("broker")?,
        serves: json(row, "serves")?,
        left_alone: json(row, "left_alone")?,
    })
}

fn seconds(micros: Micros) -> f64 {
    micros as f64 / 1e6
}
