//! Queues that are full: see `Rule::depth`.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;

use super::{EACH, Rule, Scope};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Due, JobMessage};

/// Tells which queues are full.
#[async_trait]
pub trait Backlog: Send + Sync {
    /// Those of these queues that hold as many waiting and blocked jobs as their rule allows, or more. Approximate: what others are about to
    /// commit is not counted, and a rule that was set within the last second may not be known yet. Without a rule that sets a depth it
    /// costs next to nothing.
    async fn full(&self, queues: &[&str]) -> Result<Vec<FullQueue>>;

    /// Whether an open transaction keeps everybody else from writing, so that no queue gets shorter while one waits in it.
    fn is_single_writer(&self) -> bool;
}

/// A queue that is full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullQueue {
    /// Which.
    pub queue: String,
    /// How many may wait in it.
    pub depth: u64,
}

impl FullQueue {
    pub(crate) fn error(&self) -> Error {
        let Self { queue, depth } = self;
        Error::new(
            ErrorKind::Full,
            format!(
                "the queue {queue:?} is full ({depth} jobs wait in it, as many as its rule allows): nothing was sent; send again later, wait \
                 (`WhenFull::Wait`), or raise its depth"
            ),
        )
    }
}

/// How many jobs may wait in which queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Depths {
    /// By name; a rule that sets none too, because it stands before that of all.
    own: HashMap<String, Option<u64>>,
    each: Option<u64>,
}

impl Depths {
    pub(crate) fn new(rules: &[Rule]) -> Self {
        let mut depths = Self::default();
        for rule in rules.iter().filter(|rule| rule.scope == Scope::Queue) {
            if rule.name == EACH {
                depths.each = rule.depth;
            } else {
                depths.own.insert(rule.name.clone(), rule.depth);
            }
        }
        depths
    }

    /// Those of these queues that have one.
    pub(crate) fn of<'q>(&self, queues: &[&'q str]) -> Vec<(&'q str, u64)> {
        let depth = |queue: &str| self.own.get(queue).copied().unwrap_or(self.each);
        queues.iter().filter_map(|queue| Some((*queue, depth(queue)?))).collect()
    }
}

/// The queues that these messages wait in straight from the flush, each once.
pub(crate) fn queues(messages: &[JobMessage]) -> Vec<&str> {
    let ready = messages.iter().filter(|message| message.due == Due::Now);
    ready.map(|message| message.queue.as_str()).collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_of_its_own_stands_before_that_of_all() {
        let rules = [
            Rule::new(Scope::Queue, "*").depth(10),
            Rule::new(Scope::Queue, "big").depth(100),
            Rule::new(Scope::Queue, "free").paused(true),
            Rule::new(Scope::Kind, "other").paused(true),
        ];
        let depths = Depths::new(&rules);
        assert_eq!(depths.of(&["a", "big", "free", "other"]), [("a", 10), ("big", 100), ("other", 10)]);
        assert_eq!(Depths::new(&rules[1..]).of(&["a", "big"]), [("big", 100)]);
    }
}
