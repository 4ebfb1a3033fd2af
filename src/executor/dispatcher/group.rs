//! Which kinds are claimed together.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::executor::incarnation::Incarnation;
use crate::executor::jitter;
use crate::executor::limits::Limit;
use crate::executor::queue::Queue;
use crate::executor::registry::Kind;
use crate::executor::scan::Scan;
use crate::store::{Scope, Store};

/// How soon a limit is asked again that allowed no more, at first: others may have ended what they ran.
const REFUSED: Duration = Duration::from_millis(20);
/// … and at last.
const LONGEST_REFUSED: Duration = Duration::from_secs(1);

/// Kinds that are claimed together: all without a limit of their own, or one that has one. So a node never takes more of a
/// limited kind than it can start.
pub(super) struct Group<S: Store> {
    pub(super) kinds: Vec<String>,
    /// Its limit is one of this node.
    pub(super) limited: Option<Arc<Kind<S>>>,
    /// Its kind has a limit of all nodes, which its claims count.
    kind_limit: Option<Arc<Limit>>,
    /// That and the same of its queue. In this order everywhere: their locks are taken in it.
    pub(super) counted: Vec<Arc<Limit>>,
    /// The last claim could take no more because of them. What ends then is made up for.
    pub(super) bound: bool,
    /// They allowed no more, and some wait: when to ask again, unless something ends before that.
    pub(super) again: Option<Instant>,
    /// How soon after a refusal it asks again.
    patience: Duration,
    pub(super) scan: Scan,
}

impl<S: Store> Group<S> {
    /// There may be something that it did not see, limits or not.
    pub(super) fn owe(&mut self) {
        self.scan.owe();
        self.again = None;
    }

    /// Nothing has changed since it was refused, as far as this node knows.
    pub(super) fn is_refused(&self, queue: &str, now: Instant) -> bool {
        self.again.is_some_and(|again| now < again) && self.counted.iter().all(|limit| limit.is_waited_for(queue))
    }

    /// If it was refused: what ends here is a sign, from now on.
    pub(super) fn wait_for_ends(&self, queue: &str) {
        if self.again.is_some() {
            for limit in &self.counted {
                limit.refused(queue);
            }
        }
    }

    /// A claim allowed some.
    pub(super) fn was_allowed(&mut self) {
        self.patience = REFUSED;
    }

    /// Its limits allow no more: at least for so long, if it is known.
    pub(super) fn was_refused(&mut self, wait: Option<Duration>, now: Instant) {
        self.again = Some(now + wait.unwrap_or_else(|| jitter(self.patience)));
        self.patience = (2 * self.patience).min(LONGEST_REFUSED);
    }
}

/// The groups of a node's kinds, as the rules are now. What was looked at before for the same kinds is known.
pub(super) fn groups<S: Store>(node: &Incarnation<S>, queue: &Queue, mut before: Vec<Group<S>>) -> Vec<Group<S>> {
    let queue_limit = node.limits.of(Scope::Queue, &queue.name, &node.queues);
    let mut groups: Vec<Group<S>> = Vec::new();
    for (name, kind) in node.registry.iter() {
        let kind_limit = node.limits.of(Scope::Kind, name, &node.queues);
        let limited = kind.slots.as_ref().map(|_| kind);
        let known = groups.iter_mut().find(|group| {
            // Another name of the same kind shares its limit on this node.
            group.limited.as_ref().map(Arc::as_ptr) == limited.map(Arc::as_ptr)
                && group.kind_limit.is_none()
                && kind_limit.is_none()
        });
        if let Some(group) = known {
            group.kinds.push(name.clone());
            continue;
        }
        groups.push(Group {
            kinds: vec![name.clone()],
            limited: limited.cloned(),
            counted: queue_limit.iter().chain(&kind_limit).cloned().collect(),
            kind_limit,
            bound: false,
            again: None,
            patience: REFUSED,
            scan: Scan::new(Instant::now()),
        });
    }
    for group in &mut groups {
        if let Some(at) = before.iter().position(|old| old.kinds == group.kinds) {
            group.scan = before.swap_remove(at).scan;
            group.scan.owe();
        }
    }
    groups
}
