//! Why a job does not run: the reasons, as its row, the rules, the permits and the nodes tell them.

mod decide;
mod facts;
mod texts;

use jiff::Timestamp;
use serde::Serialize;

pub(crate) use self::decide::{asked, reasons};
pub(crate) use self::facts::Facts;
pub use self::facts::{JobPosition, KeyQuestion, KeyUse, ServingNode, WaitingClass};
use super::{FailingTask, JobState, Rate, Scope};
use crate::job::{JobId, NodeId};

/// Why a job does not run, or that it does.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Why {
    /// The job.
    pub id: JobId,
    /// Its kind.
    pub kind: String,
    /// Its queue.
    pub queue: String,
    /// Its state.
    pub state: JobState,
    /// All that is in its way, or where it is. Never empty.
    pub reasons: Vec<Reason>,
}

impl Why {
    /// Returns whether something is in its way that stays until a person or another program acts.
    #[doc(hidden)]
    pub fn lasts(&self) -> bool {
        self.reasons.iter().any(Reason::lasts)
    }
}

/// Jobs that wait and have the same things in their way, and one of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HeldUp {
    /// How many they are.
    pub jobs: u64,
    /// Why one of them does not run.
    #[serde(flatten)]
    pub example: Why,
}

/// The holder of a permit that a job needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "holder", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Holder {
    /// A job.
    Job {
        /// The job.
        id: JobId,
        /// Its kind.
        kind: String,
        /// Its state: a dead letter of an ordered group has the group too.
        state: JobState,
        /// Since when it runs, if it does.
        since: Option<Timestamp>,
    },
    /// The handler of a job that was cancelled, which has not ended yet.
    Handler {
        /// The job that was cancelled.
        id: JobId,
    },
    /// A job that is gone, in a table that was truncated or restored. A running worker takes the permit back within two minutes.
    Gone,
    /// A node, for the jobs that it runs.
    Node {
        /// The node.
        id: NodeId,
        /// How many jobs it runs under the limit; 1 for a group.
        jobs: u64,
    },
}

/// Something that is in a job's way, or where the job is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// It runs.
    Runs {
        /// The node that runs it.
        node: NodeId,
        /// The node's name.
        name: String,
        /// Since when.
        since: Option<Timestamp>,
    },
    /// The node that ran it is dead, or unknown. Another one releases it.
    OwnerLost {
        /// The node that ran it.
        node: NodeId,
    },
    /// An external worker has it.
    HandedOut {
        /// When the worker's lease ends.
        until: Option<Timestamp>,
        /// What the worker calls itself, if it took the job by SQL.
        worker: Option<String>,
    },
    /// It is due later.
    Due {
        /// When.
        at: Timestamp,
    },
    /// It is due, and no executor has moved it to its queue.
    Overdue {
        /// Since when it has been due.
        since: Timestamp,
    },
    /// An operator has suspended it.
    Suspended,
    /// It is a dead letter.
    Dead {
        /// Since when.
        at: Timestamp,
        /// Why.
        error: String,
    },
    /// A rule pauses it.
    Paused {
        /// The property that the rule selects jobs by.
        scope: Scope,
        /// Whose jobs it pauses; `*` = all of this scope.
        name: String,
        /// The operator who paused it, if the audit log still knows.
        by: Option<String>,
        /// Since when, if the audit log still knows.
        since: Option<Timestamp>,
    },
    /// As many jobs run as a rule allows.
    Limit {
        /// The property that the rule selects jobs by.
        scope: Scope,
        /// The name of its queue, kind, tenant or limit key.
        name: String,
        /// How many may run.
        most: u32,
        /// How many do.
        running: u64,
        /// Some of them, or the nodes that run them.
        holders: Vec<Holder>,
    },
    /// As many jobs have started as a rate allows.
    Rate {
        /// The property that the rule selects jobs by.
        scope: Scope,
        /// The name of its queue, kind, tenant or limit key.
        name: String,
        /// The rate.
        rate: Rate,
        /// When more may start.
        until: Option<Timestamp>,
    },
    /// Another job of its exclusive group is first.
    Group {
        /// The group.
        group: String,
        /// Its holder.
        holder: Holder,
    },
    /// Its process died while it ran, so it waits for a node that runs nothing else.
    RunsAlone,
    /// It is blocked, and nothing is in its way any more: the next admission pass lets it wait.
    Admission,
    /// Its time to live is over. An executor removes it, or makes it a dead letter.
    Expired {
        /// When it ended.
        at: Timestamp,
    },
    /// No statement can read its row, so it was moved to a queue that nothing polls.
    Unreadable,
    /// Polls leave it to its delivery through the broker, which is to start it, or it was put off.
    Hidden {
        /// Until when.
        until: Timestamp,
    },
    /// No executor is alive.
    NoNode,
    /// No living node works on its queue.
    QueueNotServed {
        /// The queue.
        queue: String,
    },
    /// No living node that works on its queue has a handler for its kind.
    KindNotHandled {
        /// The queue.
        queue: String,
        /// The kind.
        kind: String,
    },
    /// All nodes that could run it leave its kind alone for a while.
    LeftAlone {
        /// The kind.
        kind: String,
        /// One of the nodes.
        node: String,
        /// Why it does.
        error: String,
    },
    /// Its queue is for workers by SQL, of which none was heard within a minute.
    NoWorker {
        /// The queue.
        queue: String,
    },
    /// Its queue is sent through the broker, and no living node reaches that.
    NoBroker {
        /// The queue.
        queue: String,
    },
    /// All slots of its queue run other jobs.
    Busy {
        /// How many jobs of the queue all living nodes together run at the same time.
        slots: u64,
        /// How many wait before it, counted up to 10,000.
        before: u64,
    },
    /// Nothing keeps it from starting; others of its queue are before it.
    Behind {
        /// How many wait before it, counted up to 10,000.
        jobs: u64,
        /// How many jobs of the queue all living nodes together run at the same time; `None` = not all of them say.
        slots: Option<u64>,
    },
    /// A task that it waits for fails again and again, on each node that could do it.
    Failing {
        /// The first of these nodes.
        node: String,
        /// Its task.
        #[serde(flatten)]
        task: FailingTask,
    },
    /// Nothing is in its way: it is the next one of its queue.
    Next,
}

impl Reason {
    /// Returns whether it stays until a person or another program acts.
    #[doc(hidden)]
    pub fn lasts(&self) -> bool {
        match self {
            Self::Suspended
            | Self::Unreadable
            | Self::Dead { .. }
            | Self::Paused { .. }
            | Self::NoNode
            | Self::QueueNotServed { .. }
            | Self::KindNotHandled { .. }
            | Self::LeftAlone { .. }
            | Self::Failing { .. }
            | Self::NoWorker { .. }
            | Self::NoBroker { .. } => true,
            Self::Limit { most, .. } => *most == 0,
            Self::Group { holder: Holder::Job { state, .. }, .. } => {
                matches!(state, JobState::Dead | JobState::Suspended)
            }
            Self::Group { .. }
            | Self::Runs { .. }
            | Self::OwnerLost { .. }
            | Self::HandedOut { .. }
            | Self::Due { .. }
            | Self::Overdue { .. }
            | Self::Rate { .. }
            | Self::RunsAlone
            | Self::Admission
            | Self::Expired { .. }
            | Self::Hidden { .. }
            | Self::Busy { .. }
            | Self::Behind { .. }
            | Self::Next => false,
        }
    }
}
