//! Why a job does not run: the reasons, as its row, the rules, the permits and the nodes tell them.

mod decide;
mod facts;

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

pub(crate) use self::decide::{asked, reasons};
pub(crate) use self::facts::Facts;
pub use self::facts::{JobPosition, KeyQuestion, KeyUse, ServingNode, WaitingClass};
use super::{JobState, Rate, Scope};
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

/// What has a permit that a job needs.
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
        /// What the rule selects jobs by.
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
        /// What the rule selects jobs by.
        scope: Scope,
        /// The name of its queue, kind, tenant or limit key.
        name: String,
        /// How many may run.
        most: u32,
        /// How many do.
        running: u64,
        /// Some of those that do.
        holders: Vec<Holder>,
    },
    /// As many jobs have started as a rate allows.
    Rate {
        /// What the rule selects jobs by.
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
        /// What has it.
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
    /// Its queue is sent through the broker, and no living node reaches that.
    NoBroker {
        /// The queue.
        queue: String,
    },
    /// Nothing keeps it from starting; others of its queue are before it.
    Behind {
        /// How many wait before it, counted up to 10,000.
        jobs: u64,
        /// How many jobs of the queue all living nodes together run at the same time; `None` = not all of them say.
        slots: Option<u64>,
    },
    /// Nothing is in its way: it is the next one of its queue.
    Next,
}

impl Reason {
    /// Returns whether it stays until a person or another program acts.
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
            | Self::NoBroker { .. } => true,
            Self::Limit { most, .. } => *most == 0,
            Self::Group { holder: Holder::Job { state, .. }, .. } => {
                matches!(state, JobState::Dead | JobState::Suspended)
            }
            _ => false,
        }
    }

    /// Returns what a person can do about it, for the job with this id; `None` = wait.
    pub fn remedy(&self, job: JobId) -> Option<String> {
        Some(match self {
            Self::Overdue { .. } => "the log of a running worker says why it moves no timers".to_owned(),
            Self::Suspended => format!("`jobwright jobs resume {job}`"),
            Self::Dead { .. } => format!("`jobwright jobs retry {job}` when the cause is gone"),
            Self::Paused { scope: Scope::Queue, name, .. } => format!("`jobwright queues resume {}`", quoted(name)),
            Self::Paused { scope, name, .. } => {
                format!("`jobwright rules put {scope} {} --paused false`", quoted(name))
            }
            Self::Limit { scope, name, most: 0, .. } => {
                format!("`jobwright rules put {scope} {} --running N` with the number that may run", quoted(name))
            }
            Self::Group { holder: Holder::Job { id, state: JobState::Dead, .. }, .. } => {
                format!("`jobwright jobs retry {id}`, or `delete` it: jobs of an ordered group wait for it")
            }
            Self::Group { holder: Holder::Job { id, state: JobState::Suspended, .. }, .. } => {
                format!("`jobwright jobs resume {id}`")
            }
            Self::Unreadable => {
                format!("`jobwright jobs show {job}` shows what can be read of it; send it again, and `jobs delete` it")
            }
            Self::NoNode => "start `jobwright worker`, or the service with the executor".to_owned(),
            Self::QueueNotServed { queue } => format!(
                "start a worker with `--queue {}`, or move the job: `jobwright jobs change {job} --to-queue …`",
                quoted(queue)
            ),
            Self::KindNotHandled { kind, .. } => format!(
                "is the kind {kind:?} spelled as its handler is? Otherwise start a worker that has the handler; `jobwright nodes list` shows which \
                 kinds the nodes have"
            ),
            Self::LeftAlone { .. } => {
                "set right what the node says; it tries again by itself, at growing intervals".to_owned()
            }
            Self::NoBroker { .. } => "`jobwright doctor` says what is wrong with the broker".to_owned(),
            _ => return None,
        })
    }
}

/// Quotes a name for a shell, where that is needed.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:/@".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', "'\\''"))
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job { id, kind, since: Some(since), .. } => {
                write!(f, "job {id} of kind {kind:?}, which runs since {}", second(*since))
            }
            Self::Job { id, kind, state, .. } => write!(f, "job {id} of kind {kind:?}, which is {state}"),
            Self::Handler { id } => write!(f, "the handler of the cancelled job {id}, which has not ended yet"),
            Self::Gone => f.write_str("a job that is gone; a running worker takes that back within two minutes"),
            Self::Node { id, jobs: 1 } => write!(f, "node {id}"),
            Self::Node { id, jobs } => write!(f, "node {id} with {jobs}"),
        }
    }
}

/// Names what a rule is about.
struct Subject<'a>(Scope, &'a str);

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(Scope::Key, name) => write!(f, "limit key {name:?}"),
            Self(scope, name) => write!(f, "{scope} {name:?}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runs { node, name, since } => {
                write!(f, "it runs on node {node} ({name})")?;
                since.map_or(Ok(()), |since| write!(f, " since {}", second(since)))
            }
            Self::OwnerLost { node } => {
                write!(f, "node {node}, which ran it, is dead; it waits again when another executor has released it")
            }
            Self::HandedOut { until: Some(until) } => {
                write!(f, "an external worker has it; the worker's lease ends at {}", second(*until))
            }
            Self::HandedOut { until: None } => f.write_str("an external worker has it"),
            Self::Due { at } => write!(f, "it is due at {}", second(*at)),
            Self::Overdue { since } => {
                write!(f, "it has been due since {}, and no executor has moved it to its queue yet", second(*since))
            }
            Self::Suspended => f.write_str("an operator has suspended it"),
            Self::Dead { at, error } => write!(f, "it is a dead letter since {}: {error}", second(*at)),
            Self::Paused { scope, name, by, since } => {
                if name == super::EACH {
                    write!(f, "each {} is paused", if *scope == Scope::Key { "limit key" } else { scope.as_str() })?;
                } else {
                    write!(f, "{} is paused", Subject(*scope, name))?;
                }
                if let Some(since) = since {
                    write!(f, " since {}", second(*since))?;
                }
                by.as_ref().map_or(Ok(()), |by| write!(f, " by {by}"))
            }
            Self::Limit { scope, name, most: 0, .. } => write!(f, "no job of {} may run", Subject(*scope, name)),
            Self::Limit { scope, name, most, running, holders } => {
                write!(f, "{} has its limit of {most} running jobs ({running} run", Subject(*scope, name))?;
                for (position, holder) in holders.iter().enumerate() {
                    write!(f, "{}{holder}", if position == 0 { ": " } else { "; " })?;
                }
                f.write_str(")")
            }
            Self::Rate { scope, name, rate, until } => {
                write!(f, "{} has reached its rate of {rate}", Subject(*scope, name))?;
                until.map_or(Ok(()), |until| write!(f, "; more may start at {}", second(until)))
            }
            Self::Group { group, holder } => write!(f, "its group {group:?} is held by {holder}"),
            Self::RunsAlone => f.write_str(
                "its process died while it ran, so it waits for a node that runs nothing else at that moment",
            ),
            Self::Admission => {
                f.write_str("it is blocked, and nothing is in its way any more: the next admission pass lets it start")
            }
            Self::Expired { at } => {
                write!(f, "its time to live ended at {}; an executor is about to remove it", second(*at))
            }
            Self::Unreadable => f.write_str("its row can't be read, so it was set aside"),
            Self::Hidden { until } => write!(
                f,
                "polls leave it until {}: a delivery through the broker is to start it, or it was put off",
                second(*until)
            ),
            Self::NoNode => f.write_str("no executor is alive"),
            Self::QueueNotServed { queue } => write!(f, "no living node works on the queue {queue:?}"),
            Self::KindNotHandled { queue, kind } => {
                write!(f, "no living node that works on the queue {queue:?} has a handler for the kind {kind:?}")
            }
            Self::LeftAlone { kind, node, error } => {
                write!(f, "node {node} leaves the kind {kind:?} alone for a while: {error}")
            }
            Self::NoBroker { queue } => {
                write!(f, "the jobs of the queue {queue:?} leave through the broker, and no living node reaches it")
            }
            Self::Behind { jobs, slots } => {
                let more = if *jobs >= 10_000 { " or more" } else { "" };
                write!(f, "{jobs}{more} jobs of its queue are before it")?;
                slots.map_or(Ok(()), |slots| write!(f, ", and {slots} of them run at the same time"))
            }
            Self::Next => f.write_str("nothing is in its way: it is the next of its queue"),
        }
    }
}

/// A time without the fractions of a second, which people do not need.
fn second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
