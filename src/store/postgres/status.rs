//! The status of the system: see `status.sql`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio_postgres::Row;

use super::checks::PAGES;
use super::rows;
use super::shared::Shared;
use super::sql_workers;
use crate::error::{Error, ErrorKind, Result};
use crate::job::NodeId;
use crate::store::{Count, NodeStatus, QueueStatus, StatusReport};

/// How many jobs are counted at most of each part of a queue, where a table is large.
const MOST: i64 = 10_000;
/// How many are counted together, about. A row costs some two microseconds.
const ALL: i64 = 100_000;
/// How many are counted at least, however many queues there are.
const LEAST: i64 = 100;

pub(super) async fn status(shared: &Arc<Shared>) -> Result<StatusReport> {
    let sample = shared.engine("count queues", &shared.sql.status_sample, &[&PAGES]).await?;
    let mut figures = Figures::default();
    let mut estimates = Estimates::default();
    for row in &sample {
        estimates.add(row)?;
    }
    if estimates.are_whole() {
        for row in &sample {
            figures.add(row, false)?;
        }
    } else {
        let walk = shared.engine("count queues", &shared.sql.status_walk, &[&MOST, &ALL, &LEAST]).await?;
        for row in &walk {
            figures.add(row, rows::get(row, "more")?)?;
        }
        figures.estimate(&estimates);
    }
    let nodes = shared.engine("list nodes", &shared.sql.status_nodes, &[]).await?;
    let nodes = nodes.iter().map(|row| figures.node(row)).collect::<Result<_>>()?;
    let workers = sql_workers::all(shared).await?;
    Ok(StatusReport { queues: figures.queues(), nodes, workers })
}

/// A part of a queue: the jobs of one table, and in `job` the plain ones and the blocked ones, which have an index each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Plain,
    Blocked,
    Timer,
    /// Timers, counted once more.
    Overdue,
    Suspended,
    Dead,
    External,
}

impl Part {
    fn of(row: &Row) -> Result<Self> {
        Ok(match rows::get(row, "part")? {
            "plain" => Self::Plain,
            "blocked" => Self::Blocked,
            "timer" => Self::Timer,
            "overdue" => Self::Overdue,
            "suspended" => Self::Suspended,
            "dead" => Self::Dead,
            "external" => Self::External,
            other => return Err(Error::new(ErrorKind::Schema, format!("{other:?} is no part of a queue"))),
        })
    }

    /// Returns the count of the jobs of this part that no node runs.
    fn count(self, queue: &mut QueueStatus) -> &mut Count {
        match self {
            Self::Plain => &mut queue.waiting,
            Self::Blocked => &mut queue.blocked,
            Self::Timer => &mut queue.timer,
            Self::Overdue => &mut queue.overdue,
            Self::Suspended => &mut queue.suspended,
            Self::Dead => &mut queue.dead,
            Self::External => &mut queue.external,
        }
    }
}

/// The shares of jobs in a sample of large tables.
#[derive(Default)]
struct Estimates {
    /// Which share of its table the sample of each part is.
    shares: BTreeMap<Part, f64>,
    /// The jobs in the sample that no node runs, of each part and queue.
    jobs: BTreeMap<(Part, String), u64>,
}

impl Estimates {
    fn add(&mut self, row: &Row) -> Result<()> {
        let part = Part::of(row)?;
        self.shares.insert(part, rows::get(row, "share")?);
        if let Some(queue) = rows::get(row, "queue")?
            && rows::get::<Option<i64>>(row, "owner")?.is_none()
        {
            self.jobs.insert((part, queue), rows::counted(row, "jobs")?);
        }
        Ok(())
    }

    /// Returns whether the samples are all there is.
    fn are_whole(&self) -> bool {
        self.shares.values().all(|share| *share >= 1.0)
    }

    /// Returns how many jobs there are, if so many were counted and there are more.
    fn of(&self, part: Part, queue: &str, counted: u64) -> Count {
        let sampled = self.jobs.get(&(part, queue.to_owned())).copied().unwrap_or_default();
        match self.shares.get(&part) {
            Some(share) if *share < 1.0 => Count::About(counted.max((sampled as f64 / share.max(1e-9)) as u64)),
            // This table is small, and another one is large.
            _ => Count::Exact(counted.max(sampled)),
        }
    }
}

#[derive(Default)]
struct Figures {
    queues: BTreeMap<String, QueueStatus>,
    /// How many jobs each node owns.
    owned: BTreeMap<i64, u64>,
    /// The parts of queues that have more jobs than were counted.
    cut: BTreeSet<(Part, String)>,
    /// Whether more timers are overdue than were looked at.
    are_more_overdue: bool,
}

impl Figures {
    /// Adds the counted jobs of a part of a queue that a node owns, or none. `more`: the part has more.
    fn add(&mut self, row: &Row, more: bool) -> Result<()> {
        let part = Part::of(row)?;
        let Some(name) = rows::get::<Option<String>>(row, "queue")? else { return Ok(()) };
        let (jobs, overdue) = (rows::counted(row, "jobs")?, rows::counted(row, "overdue")?);
        let new = || QueueStatus { queue: name.clone(), ..QueueStatus::default() };
        let queue = self.queues.entry(name.clone()).or_insert_with(new);
        let owner: Option<i64> = rows::get(row, "owner")?;
        if part == Part::Overdue {
            self.are_more_overdue |= more;
        } else if let Some(owner) = owner {
            *self.owned.entry(owner).or_default() += jobs;
            queue.running += if more { Count::AtLeast(jobs) } else { Count::Exact(jobs) };
        } else {
            *part.count(queue) += Count::Exact(jobs);
        }
        if more && part != Part::Overdue {
            self.cut.insert((part, name));
        }
        queue.overdue += if more && part == Part::Overdue { Count::AtLeast(overdue) } else { Count::Exact(overdue) };
        for (age, column) in
            [(&mut queue.oldest_waiting_seconds, "oldest_seconds"), (&mut queue.oldest_overdue_seconds, "due_seconds")]
        {
            *age = age.iter().copied().chain(rows::get::<Option<f64>>(row, column)?).reduce(f64::max);
        }
        Ok(())
    }

    /// Replaces the counts of parts that have more jobs than were counted.
    fn estimate(&mut self, estimates: &Estimates) {
        for (part, name) in &self.cut {
            let Some(queue) = self.queues.get_mut(name) else { continue };
            let count = part.count(queue);
            *count = estimates.of(*part, name, count.get());
            if matches!(part, Part::Plain | Part::Blocked) {
                queue.running += Count::AtLeast(0);
            }
        }
    }

    fn queues(mut self) -> Vec<QueueStatus> {
        if self.are_more_overdue {
            // Any of them may be of any queue.
            for queue in self.queues.values_mut().filter(|queue| queue.timer != 0) {
                queue.overdue += Count::AtLeast(0);
            }
        }
        self.queues.into_values().collect()
    }

    fn node(&self, row: &Row) -> Result<NodeStatus> {
        let id = rows::get(row, "id")?;
        let owned = self.owned.get(&id).copied().unwrap_or_default();
        let is_cut = self.cut.iter().any(|(part, _)| matches!(part, Part::Plain | Part::Blocked));
        Ok(NodeStatus {
            id: NodeId(id),
            name: rows::get(row, "name")?,
            host: rows::get(row, "host")?,
            pid: u32::try_from(rows::get::<i64>(row, "pid")?).unwrap_or_default(),
            started_at: rows::get(row, "started_at")?,
            lease_seconds_left: rows::get(row, "lease_seconds_left")?,
            dead: rows::get(row, "dead")?,
            // Nodes may own others of the jobs that were not counted.
            running: if is_cut { Count::AtLeast(owned) } else { Count::Exact(owned) },
            broker: rows::get(row, "broker")?,
            serves: rows::json(row, "serves")?,
            left_alone: rows::json(row, "left_alone")?,
            failing: rows::json(row, "failing")?,
        })
    }
}
