//! What an executor has to do beside running jobs.

use std::time::Duration;

use jiff::Timestamp;

use super::NodeHeartbeat;
use crate::job::NodeId;

/// A poll of a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct MaintenanceRequest<'a> {
    /// Work that falls due within this time counts as due.
    pub ahead: Duration,
    /// The node that asks, if it watches the heartbeats of others.
    pub node: Option<NodeId>,
    /// The queues whose jobs it runs itself, of these kinds.
    pub queues: &'a [String],
    /// The kinds of jobs that it runs.
    pub kinds: &'a [String],
    /// The queues whose jobs it sends to the broker, of any kind.
    pub outbound: &'a [String],
}

impl MaintenanceRequest<'_> {
    /// Asks for what is due now or within this time, and for no queue.
    pub fn within(ahead: Duration) -> Self {
        Self { ahead, ..Self::default() }
    }
}

/// Which maintenance may be due. `false`: none of this sort is due, or will be within the time that was asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintenanceDue {
    /// Timers: [`promote_due`](super::Maintenance::promote_due).
    pub timers: bool,
    /// Times to live: [`expire_jobs`](super::Maintenance::expire_jobs).
    pub expiry: bool,
    /// Admission: [`admit`](super::Maintenance::admit).
    pub admission: bool,
    /// Schedules: [`next_schedule`](super::Schedules::next_schedule), and what follows from it.
    pub schedules: bool,
    /// Leases of external workers: [`expire_external`](super::External::expire_external).
    pub external: bool,
    /// Suspects that wait to be run alone: [`suspects`](super::engine::Claims::suspects).
    pub suspects: bool,
    /// Permits and blocked jobs: [`reconcile`](super::Maintenance::reconcile) may find something.
    pub reconciliation: bool,
    /// The queues in which a job may wait that can start; `None` = any of those that were asked about.
    pub queues: Option<Vec<String>>,
    /// A number that changes with the rules; `None` = the rules may have changed.
    pub rules: Option<i64>,
    /// The heartbeats of the nodes that the asking one watches, if they were read: see [`watched_heartbeats`](super::Nodes::watched_heartbeats).
    pub heartbeats: Option<Vec<NodeHeartbeat>>,
    /// The time by the database's clock, if it was read.
    pub now: Option<Timestamp>,
}

impl MaintenanceDue {
    /// Everything may be due.
    pub const ANY: Self = Self {
        timers: true,
        expiry: true,
        admission: true,
        schedules: true,
        external: true,
        suspects: true,
        reconciliation: true,
        queues: None,
        rules: None,
        heartbeats: None,
        now: None,
    };
}

/// For how long work has been due that executors do by themselves within seconds. `None`: none of this sort is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverdueWork {
    /// The timer that has been due for the longest time.
    pub timers: Option<Duration>,
    /// The job whose time to live ended first, of those that have not started.
    pub expiry: Option<Duration>,
    /// The lease of an external worker that ended first.
    pub external: Option<Duration>,
}

/// The result of a promotion of due timers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promoted {
    /// How many jobs are waiting now.
    pub jobs: u64,
    /// The queues they wait in.
    pub queues: Vec<String>,
    /// Whether some of them are blocked and wait for admission.
    pub blocked: bool,
    /// Time until the next timer is due; `None` = there is none.
    pub next: Option<Duration>,
}
