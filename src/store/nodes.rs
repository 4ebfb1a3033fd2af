//! Nodes, as a database sees them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::job::NodeId;

/// The work of a node, as its row tells the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Serves {
    /// The queues whose jobs it runs, and how many of each at the same time.
    pub queues: BTreeMap<String, u64>,
    /// The kinds that it has handlers for.
    pub kinds: BTreeSet<String>,
    /// The queues whose jobs it hands out to external workers.
    pub external: BTreeSet<String>,
}

/// The names of tasks that jobs wait for.
pub(crate) const CLAIMS: &str = "claims";
/// Not a task of the node itself: the workers of an external queue.
pub(crate) const CONSUMERS: &str = "consumers";
pub(crate) const TIMERS: &str = "timers";
pub(crate) const ADMISSION: &str = "admission";

/// A task of a node that has failed more than once, for five seconds or longer, and is tried again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct FailingTask {
    /// The task, in a word or two: `claims`, `timers`. See [`lacks_consumers`](Self::lacks_consumers) for `consumers`.
    pub task: String,
    /// The queue, if each has such a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Its failure, in words.
    pub failed: String,
    /// The last error, shortened to 500 characters.
    pub error: String,
    /// When it failed first since it last succeeded, by the clock of the node.
    pub since: Timestamp,
}

impl FailingTask {
    /// Returns whether it is no fault of the node: an external queue has no consumer. That matters to jobs that wait for one, and is told of them; the queue may
    /// be empty, and its workers off.
    #[doc(hidden)]
    pub fn lacks_consumers(&self) -> bool {
        self.task == CONSUMERS
    }
}

impl fmt::Display for FailingTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.failed)?;
        if let Some(queue) = &self.queue {
            write!(f, " (queue {queue:?})")?;
        }
        write!(f, ": {}", self.error)
    }
}

/// What a node registers with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeInfo {
    /// A name for people, such as `billing` or `host:pid`. Need not be unique.
    pub name: String,
    /// Host name.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// How long the node lives without a heartbeat. At least 1 s.
    pub lease: Duration,
    /// Its work; `None` = it does not say.
    pub serves: Option<Serves>,
}

impl NodeInfo {
    /// Describes a node of process `pid` on `host`.
    pub fn new(name: impl Into<String>, host: impl Into<String>, pid: u32, lease: Duration) -> Self {
        Self { name: name.into(), host: host.into(), pid, lease, serves: None }
    }

    /// Describes the work of the node.
    #[must_use]
    pub fn serves(mut self, serves: Serves) -> Self {
        self.serves = Some(serves);
        self
    }

    /// Returns the work of the node as JSON, for its row.
    pub(crate) fn serves_text(&self) -> Option<String> {
        // Writing names and numbers as JSON can't fail.
        self.serves.as_ref().map(|serves| serde_json::to_string(serves).unwrap_or_default())
    }

    /// Sets another lease.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }
}

/// The server that answers, and since when it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerIdentity {
    /// The server and its timeline: another one after a failover or a restore. It may lack commits of the one before.
    pub history: String,
    /// When it was started. After a crash it may lack commits that did not wait for the disk.
    pub started: jiff::Timestamp,
}

/// A node's heartbeat, as a monitor sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeHeartbeat {
    /// The node.
    pub node: NodeId,
    /// The number of the heartbeat: it changes with each one.
    pub heartbeats: i64,
    /// How long the node lives without a heartbeat.
    pub lease: Duration,
    /// Whether its process is known to have ended, so that its lease need not expire first.
    pub ended: bool,
    /// Whether it was declared dead and is not forgotten yet.
    pub dead: bool,
}

/// What became of jobs that were released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// Jobs that wait again.
    pub waiting: u64,
    /// Jobs that are dead letters now.
    pub dead: u64,
    /// Handlers of cancelled jobs whose end nothing will report any more; what they held is free.
    pub ended: u64,
}

impl Released {
    /// Returns how many jobs were released.
    pub fn total(self) -> u64 {
        self.waiting + self.dead
    }
}
