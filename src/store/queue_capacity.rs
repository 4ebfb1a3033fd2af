//! Full queues: see `Rule::depth`.

use std::collections::{BTreeSet, HashMap};

use super::{EACH, Rule, Scope};
use crate::error::{Error, ErrorKind};
use crate::job::{Due, JobMessage};

/// A queue that is full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullQueue {
    /// The queue.
    pub queue: String,
    /// How many jobs may wait in it.
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
    /// Depths by queue. Contains rules without a depth too, because they take precedence over the rule for all.
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

    /// Returns those of these queues that have a depth, with it.
    pub(crate) fn of<'q>(&self, queues: &[&'q str]) -> Vec<(&'q str, u64)> {
        let depth = |queue: &str| self.own.get(queue).copied().unwrap_or(self.each);
        queues.iter().filter_map(|queue| Some((*queue, depth(queue)?))).collect()
    }
}

/// Returns the queues in which these messages wait as soon as they are flushed, each once.
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
