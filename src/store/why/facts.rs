//! The facts about a job that a database tells.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Holder;
use crate::job::{JobId, NodeId};
use crate::store::{FailingTask, Rule, Serves, SqlWorker};

/// A question about a key: how much of it is taken, and how many jobs started in the period of its rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyQuestion {
    /// The key of a group or a limit.
    pub key: String,
    /// The period of its rate, in microseconds; 0 = it has none.
    pub period: i64,
}

/// The use of a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyUse {
    /// The key.
    pub key: String,
    /// How many permits of it are taken, and how many jobs claims have counted under it.
    pub taken: u64,
    /// Their holders: at most five jobs, and five nodes that count jobs under it.
    pub holders: Vec<Holder>,
    /// How many jobs started within the period that was asked for.
    pub starts: u64,
    /// When the first of these started.
    pub first_start: Option<Timestamp>,
}

/// The place of a job among others, which no list shows.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPosition {
    /// The clock of the database.
    pub now: Timestamp,
    /// Until when it is hidden for its delivery.
    pub hidden_until: Option<Timestamp>,
    /// When the lease of its external worker ends.
    pub lease_until: Option<Timestamp>,
    /// The name of that worker, if it took the job by SQL.
    pub worker: Option<String>,
    /// Whether it has the permits that it needs.
    pub admitted: bool,
    /// How many jobs of its queue wait before it, counted up to 10,000.
    pub before: u64,
    /// How many of the first 10,000 jobs of its queue run.
    pub running: u64,
}

/// Jobs that wait and that the same rules cover, and one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingClass {
    /// How many they are, counted up to 100,000 for all classes.
    pub jobs: u64,
    /// The one that was sent first.
    pub first: JobId,
}

/// A node, as far as it matters to jobs that wait.
#[derive(Clone, Debug, PartialEq)]
pub struct ServingNode {
    /// The node.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// Whether it was declared dead.
    pub dead: bool,
    /// Whether its lease stands.
    pub alive: bool,
    /// How it stands with the broker; `None` = it has none.
    pub broker: Option<String>,
    /// Its work; `None` = it is of a build that does not say.
    pub serves: Option<Serves>,
    /// The kinds that it leaves alone at the moment, and why.
    pub left_alone: BTreeMap<String, String>,
    /// Its tasks that have failed for five seconds or more.
    pub failing: Vec<FailingTask>,
}

/// The facts that the reasons are made of, beside the job itself.
pub(crate) struct Facts<'a> {
    pub(crate) rules: &'a [Rule],
    pub(crate) nodes: &'a [ServingNode],
    pub(crate) workers: &'a [SqlWorker],
    pub(crate) keys: &'a [KeyUse],
    pub(crate) position: JobPosition,
}
