//! What operators see of the whole: queues, nodes, and how many jobs each has.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use super::{Count, FailingTask, Serves, SqlWorker};
use crate::job::NodeId;

/// The state of a system.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StatusReport {
    /// Queues that have jobs.
    pub queues: Vec<QueueStatus>,
    /// Nodes that are alive, or dead and not yet forgotten.
    pub nodes: Vec<NodeStatus>,
    /// Programs that take jobs by SQL, as far as they were heard within a day or hold jobs.
    #[doc(hidden)]
    pub workers: Vec<SqlWorker>,
}

/// Counts of one queue. They are exact where jobs are few. Where they are many, at least a hundred of each queue and state are counted, and the rest
/// is estimated ([`Count`]), so that a status takes about the same time with any number of jobs.
///
/// As JSON, the counts are numbers, and `inexact` has those that are not exact by their names, each with the word of [`Count::inexact`].
#[derive(Clone, Debug, Default)]
pub struct QueueStatus {
    /// Its name.
    pub queue: String,
    /// Claimable jobs.
    pub waiting: Count,
    /// Jobs that are blocked on their group or a limit.
    pub blocked: Count,
    /// Jobs that a node owns.
    pub running: Count,
    /// Jobs handed out to external workers.
    pub external: Count,
    /// Jobs that are due later.
    pub timer: Count,
    /// Timers that are overdue. If there are some for longer than a few seconds, no executor promotes timers.
    pub overdue: Count,
    /// Suspended jobs.
    pub suspended: Count,
    /// Dead letters.
    pub dead: Count,
    /// Seconds since the oldest waiting job was flushed. Where not all jobs were counted: the oldest of the first in each order of priority.
    pub oldest_waiting_seconds: Option<f64>,
    /// Seconds since the first of the overdue timers was due.
    pub oldest_overdue_seconds: Option<f64>,
}

impl QueueStatus {
    /// Returns the counts with their names.
    #[doc(hidden)]
    pub fn counts(&self) -> [(&'static str, Count); 8] {
        [
            ("waiting", self.waiting),
            ("blocked", self.blocked),
            ("running", self.running),
            ("external", self.external),
            ("timer", self.timer),
            ("overdue", self.overdue),
            ("suspended", self.suspended),
            ("dead", self.dead),
        ]
    }
}

impl Serialize for QueueStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut shown = serializer.serialize_struct("QueueStatus", 12)?;
        shown.serialize_field("queue", &self.queue)?;
        for (name, count) in self.counts() {
            shown.serialize_field(name, &count)?;
        }
        shown.serialize_field("oldest_waiting_seconds", &self.oldest_waiting_seconds)?;
        shown.serialize_field("oldest_overdue_seconds", &self.oldest_overdue_seconds)?;
        let inexact = self.counts().into_iter().filter_map(|(name, count)| Some((name, count.inexact()?)));
        shown.serialize_field("inexact", &inexact.collect::<BTreeMap<_, _>>())?;
        shown.end()
    }
}

/// One node.
///
/// As JSON, `running` is a number, and `inexact` says if that is not exact, as in [`QueueStatus`].
#[derive(Clone, Debug)]
pub struct NodeStatus {
    /// Its number.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// Its host.
    pub host: String,
    /// Its process id.
    pub pid: u32,
    /// When it started.
    pub started_at: Timestamp,
    /// Seconds until its lease ends; negative = it ended.
    pub lease_seconds_left: f64,
    /// Whether it was declared dead; its jobs are being released then.
    pub dead: bool,
    /// How many jobs it owns. Where not all jobs of a queue were counted, those among the first of it.
    pub running: Count,
    /// The state of its broker connection; `None` = it has no broker.
    pub broker: Option<String>,
    /// Its work; `None` = it is of a build that does not say.
    pub serves: Option<Serves>,
    /// The kinds that it leaves alone at the moment because it can't run them, and why.
    pub left_alone: BTreeMap<String, String>,
    /// Its tasks that have failed for five seconds or more.
    pub failing: Vec<FailingTask>,
}

impl Serialize for NodeStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut shown = serializer.serialize_struct("NodeStatus", 13)?;
        shown.serialize_field("id", &self.id)?;
        shown.serialize_field("name", &self.name)?;
        shown.serialize_field("host", &self.host)?;
        shown.serialize_field("pid", &self.pid)?;
        shown.serialize_field("started_at", &self.started_at)?;
        shown.serialize_field("lease_seconds_left", &self.lease_seconds_left)?;
        shown.serialize_field("dead", &self.dead)?;
        shown.serialize_field("running", &self.running)?;
        shown.serialize_field("broker", &self.broker)?;
        shown.serialize_field("serves", &self.serves)?;
        shown.serialize_field("left_alone", &self.left_alone)?;
        shown.serialize_field("failing", &self.failing)?;
        let inexact = self.running.inexact().map(|word| ("running", word));
        shown.serialize_field("inexact", &inexact.into_iter().collect::<BTreeMap<_, _>>())?;
        shown.end()
    }
}
