//! Programs that take jobs by SQL, as a database sees them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use super::Count;

/// A program that takes jobs by SQL (`jobwright.take`), or several that call themselves alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SqlWorker {
    /// What it calls itself.
    pub name: String,
    /// The queues from which it took jobs within a day, each with the kinds that it takes; `None` = of any kind.
    pub queues: BTreeMap<String, Option<BTreeSet<String>>>,
    /// How many jobs it holds. Where very many jobs are handed out, those among the first 100,000, whose leases end first.
    pub held: Count,
    /// When it was last heard: it asked for jobs, or extended a lease.
    pub heard_at: Timestamp,
    /// Whether it was heard within a minute, or has a job whose lease stands.
    pub alive: bool,
}

impl SqlWorker {
    /// Returns whether it would take a job of this kind from this queue.
    pub(crate) fn takes(&self, queue: &str, kind: &str) -> bool {
        self.queues.get(queue).is_some_and(|kinds| kinds.as_ref().is_none_or(|kinds| kinds.contains(kind)))
    }
}
