//! Nodes, as a database knows them.

use std::time::Duration;

use crate::job::NodeId;

/// How a node presents itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeInfo {
    /// A name for people, such as `billing` or `host:pid`. Need not be unique.
    pub name: String,
    /// Host name.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// How long a heartbeat lasts. At least 1 s.
    pub lease: Duration,
}

impl NodeInfo {
    /// A node of process `pid` on `host`.
    pub fn new(name: impl Into<String>, host: impl Into<String>, pid: u32, lease: Duration) -> Self {
        Self { name: name.into(), host: host.into(), pid, lease }
    }

    /// With another lease.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }
}

/// Which server answers, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerIdentity {
    /// The server, and which of its histories: another one after a failover or a restore. What was committed on the one before it may have
    /// forgotten.
    pub history: String,
    /// When it was started. One that crashed may have forgotten commits that did not wait for the disk.
    pub started: jiff::Timestamp,
}

/// A node's heartbeat, as a monitor sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// Whose.
    pub node: NodeId,
    /// Its number: another one after each heartbeat.
    pub beat: i64,
    /// How long the node may be silent.
    pub lease: Duration,
    /// Its process is known to have ended: nobody need wait for its silence.
    pub ended: bool,
    /// It was declared dead and is not forgotten yet.
    pub dead: bool,
}

/// What became of a dead node's job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// Back to waiting.
    pub waiting: u64,
    /// Out of attempts: dead letters now.
    pub dead: u64,
    /// Handlers of cancelled jobs that nobody will hear of any more: what they held is free.
    pub ended: u64,
}

impl Released {
    /// How many rows were released altogether.
    pub fn total(self) -> u64 {
        self.waiting + self.dead
    }
}
