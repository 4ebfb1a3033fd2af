//! The status of the system: one snapshot, and counts by the indexes up to a limit.

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
use crate::store::{Count, JobState, NodeStatus, QueueStatus, StatusReport};

const SQL: &str = include_str!("status.sql");
const LANES: &str = section(SQL, "lanes");
const LANE: &str = section(SQL, "lane");
const QUEUES: &str = section(SQL, "queues");
const QUEUE: &str = section(SQL, "queue");
const FEW: &str = section(SQL, "few");
const NODES: &str = section(SQL, "nodes");

/// How many jobs are counted at most of each queue and state, and of each priority if they wait. Entries of an index are counted, some twenty in a microsecond.
const MOST: u64 = 100_000;
/// How many are counted together, about.
const ALL: u64 = 1_000_000;
/// How many are counted at least, however many queues there are.
const LEAST: u64 = 100;
/// Of how many jobs of a lane the age is read.
const ROWS: u64 = 1_000;

/// The states whose queues are found by an index, with its condition and its name.
const BY_QUEUE: [(JobState, &str, &str); 4] = [
    (JobState::Timer, "state = 'timer'", "jobwright_job_timer_queue"),
    (JobState::Suspended, "state = 'suspended'", "jobwright_job_suspended_queue"),
    (JobState::Dead, "state = 'dead'", "jobwright_job_dead_queue"),
    (JobState::Blocked, "blocked_on is not null", "jobwright_job_blocked_queue"),
];

impl Shared {
    pub(super) async fn status(&self) -> Result<StatusReport> {
        let liveness_files = self.liveness_files.clone();
        self.query("read the status", move |connection, now| {
            let queues = queues(connection, now)?;
            let mut nodes = connection.prepare_cached(NODES)?;
            let nodes = nodes.query_map([], |row| node(row, &liveness_files))?.collect::<rusqlite::Result<_>>()?;
            Ok(StatusReport { queues, nodes, workers: Vec::new() })
        })
        .await
    }
}

/// How many jobs are counted of each of so many parts of queues.
fn limit(parts: usize) -> u64 {
    (ALL / (parts.max(1) as u64)).clamp(LEAST, MOST)
}

/// Makes a count of what was counted up to a limit.
fn counted(jobs: u64, limit: u64) -> Count {
    if jobs < limit { Count::Exact(jobs) } else { Count::AtLeast(jobs) }
}

/// Reads the counts of all queues, in the order of their names.
fn queues(connection: &Connection, now: Micros) -> rusqlite::Result<Vec<QueueStatus>> {
    let mut queues = Queues::default();
    waiting(connection, now, &mut queues)?;
    for (state, of, index) in BY_QUEUE {
        let filled = |sql: &str| sql.replace("{of}", of).replace("{index}", index);
        let mut names = connection.prepare_cached(&filled(QUEUES))?;
        let names = names.query_map([], |row| row.get("queue"))?.collect::<rusqlite::Result<Vec<String>>>()?;
        let limit = limit(names.len());
        let mut count = connection.prepare_cached(&filled(QUEUE))?;
        for name in names {
            let values = named_params! { ":queue": name, ":limit": limit as i64 };
            let jobs = count.query_row(values, |row| number(row, "jobs"))?;
            *queues.count(&name, state) = counted(jobs, limit);
        }
    }
    let mut few = connection.prepare_cached(FEW)?;
    let mut rows = few.query(named_params! { ":now": now, ":limit": MOST as i64 })?;
    while let Some(row) = rows.next()? {
        let name: String = row.get("queue")?;
        let (jobs, among) = (number(row, "jobs")?, number(row, "among")?);
        let jobs = if among < MOST { Count::Exact(jobs) } else { Count::AtLeast(jobs) };
        let state = row.get::<_, String>("state")?.parse().map_err(|_| FromSqlError::InvalidType)?;
        if state == JobState::Timer {
            let queue = queues.named(&name);
            queue.overdue = jobs;
            queue.oldest_overdue_seconds = row.get::<_, Option<Micros>>("due")?.map(|due| seconds(now - due));
            queues.overdue_is_cut = among >= MOST;
        } else {
            *queues.count(&name, state) = jobs;
        }
    }
    Ok(queues.finish())
}

fn waiting(connection: &Connection, now: Micros, queues: &mut Queues) -> rusqlite::Result<()> {
    let mut lanes = connection.prepare_cached(LANES)?;
    let lanes = lanes.query_map([], |row| Ok((row.get("queue")?, row.get("rank")?)))?;
    let lanes = lanes.collect::<rusqlite::Result<Vec<(String, i64)>>>()?;
    let limit = limit(lanes.len());
    let mut lane = connection.prepare_cached(LANE)?;
    for (name, rank) in lanes {
        let rows = ROWS.min(limit) as i64;
        let values = named_params! { ":queue": name, ":rank": rank, ":limit": limit as i64, ":rows": rows };
        let (jobs, oldest) = lane.query_row(values, |row| Ok((number(row, "jobs")?, row.get("oldest")?)))?;
        let queue = queues.named(&name);
        queue.waiting += counted(jobs, limit);
        let age = Option::<Micros>::map(oldest, |oldest| seconds(now - oldest).max(0.0));
        queue.oldest_waiting_seconds = queue.oldest_waiting_seconds.into_iter().chain(age).reduce(f64::max);
    }
    Ok(())
}

/// The queues by their names.
#[derive(Default)]
struct Queues {
    all: BTreeMap<String, QueueStatus>,
    /// Whether more timers are overdue than were read.
    overdue_is_cut: bool,
}

impl Queues {
    fn named(&mut self, name: &str) -> &mut QueueStatus {
        let new = || QueueStatus { queue: name.to_owned(), ..QueueStatus::default() };
        self.all.entry(name.to_owned()).or_insert_with(new)
    }

    fn count(&mut self, name: &str, state: JobState) -> &mut Count {
        let queue = self.named(name);
        match state {
            JobState::Waiting => &mut queue.waiting,
            JobState::Blocked => &mut queue.blocked,
            JobState::Running => &mut queue.running,
            JobState::External => &mut queue.external,
            JobState::Timer => &mut queue.timer,
            JobState::Suspended => &mut queue.suspended,
            JobState::Dead => &mut queue.dead,
        }
    }

    fn finish(mut self) -> Vec<QueueStatus> {
        if self.overdue_is_cut {
            for queue in self.all.values_mut().filter(|queue| queue.timer != 0) {
                queue.overdue += Count::AtLeast(0);
            }
        }
        self.all.into_values().collect()
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
        running: Count::Exact(number(row, "running")?),
        broker: row.get("broker")?,
        serves: json(row, "serves")?,
        left_alone: json(row, "left_alone")?,
        failing: json(row, "failing")?,
    })
}

fn seconds(micros: Micros) -> f64 {
    micros as f64 / 1e6
}
