//! The status of the system: one snapshot and a few aggregates.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row, named_params};

use super::liveness_files::LivenessFiles;
use super::rows::{Micros, timestamp};
use super::shared::Shared;
use crate::error::Result;
use crate::job::NodeId;
use crate::store::{NodeStatus, QueueStatus, StatusReport};

const JOBS: &str = include_str!("sql/status_jobs.sql");
const TIMERS: &str = include_str!("sql/status_timers.sql");
const SUSPENDED: &str = include_str!("sql/status_suspended.sql");
const EXTERNAL: &str = include_str!("sql/status_external.sql");
const BLOCKED: &str = include_str!("sql/status_blocked.sql");
const DEAD: &str = include_str!("sql/status_dead.sql");
const NODES: &str = include_str!("sql/status_nodes.sql");

impl Shared {
    pub(super) async fn status(&self) -> Result<StatusReport> {
        let liveness_files = self.liveness_files.clone();
        self.query("read the status", move |connection, now| {
            let mut queues = Queues::default();
            queues.add(connection, JOBS, &[], |queue, row| {
                queue.waiting = number(row, "waiting")?;
                queue.running = number(row, "running")?;
                queue.oldest_waiting_seconds =
                    row.get::<_, Option<Micros>>("oldest")?.map(|oldest| seconds(now - oldest).max(0.0));
                Ok(())
            })?;
            queues.add(connection, TIMERS, named_params! { ":now": now }, |queue, row| {
                queue.timer = number(row, "jobs")?;
                queue.overdue = number(row, "overdue")?;
                Ok(())
            })?;
            queues.add(connection, SUSPENDED, &[], |queue, row| {
                queue.suspended = number(row, "jobs")?;
                Ok(())
            })?;
            queues.add(connection, EXTERNAL, &[], |queue, row| {
                queue.external = number(row, "jobs")?;
                Ok(())
            })?;
            queues.add(connection, BLOCKED, &[], |queue, row| {
                queue.blocked = number(row, "jobs")?;
                Ok(())
            })?;
            queues.add(connection, DEAD, &[], |queue, row| {
                queue.dead = number(row, "jobs")?;
                Ok(())
            })?;
            let mut nodes = connection.prepare_cached(NODES)?;
            let nodes = nodes.query_map([], |row| node(row, &liveness_files))?.collect::<rusqlite::Result<_>>()?;
            Ok(StatusReport { queues: queues.0.into_values().collect(), nodes })
        })
        .await
    }
}

/// Queues by name.
#[derive(Default)]
struct Queues(BTreeMap<String, QueueStatus>);

impl Queues {
    /// Adds the counts of one table.
    fn add(
        &mut self,
        connection: &Connection,
        sql: &str,
        params: &[(&str, &dyn rusqlite::ToSql)],
        mut set: impl FnMut(&mut QueueStatus, &Row<'_>) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            let name: String = row.get("queue")?;
            let queue =
                self.0.entry(name.clone()).or_insert_with(|| QueueStatus { queue: name, ..QueueStatus::default() });
            set(queue, row)?;
        }
        Ok(())
    }
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
    })
}

/// Reads a count, which SQLite returns as a signed number.
fn number(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

fn seconds(micros: Micros) -> f64 {
    micros as f64 / 1e6
}
