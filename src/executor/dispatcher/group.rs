//! Which kinds are claimed together.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;
use crate::executor::incarnation::Incarnation;
use crate::executor::jitter;
use crate::executor::limits::Limit;
use crate::executor::queue::Queue;
use crate::executor::registry::Kind;
use crate::executor::scan::{Look, Scan};
use crate::store::{Scope, Store};

/// How soon a limit is asked again that allowed no more, at first: others may have ended what they ran.
const REFUSED: Duration = Duration::from_millis(20);
/// How soon at last: each refusal doubles the time.
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
    /// A rate is used up: no end makes room.
    timed: bool,
    /// How many jobs had ended under each of them before the last claim.
    ends: Vec<u64>,
    /// How soon after a refusal it asks again.
    patience: Duration,
    /// Some may have been admitted since the last claim that looked for them.
    pub(super) admitted: bool,
    pub(super) scan: Scan,
}

impl<S: Store> Group<S> {
    fn new(
        kinds: Vec<String>,
        limited: Option<Arc<Kind<S>>>,
        queue_limit: Option<&Arc<Limit>>,
        kind_limit: Option<Arc<Limit>>,
    ) -> Self {
        Self {
            kinds,
            limited,
            counted: queue_limit.into_iter().chain(&kind_limit).cloned().collect(),
            kind_limit,
            bound: false,
            again: None,
            timed: false,
            ends: Vec::new(),
            patience: REFUSED,
            admitted: true,
            scan: Scan::new(Instant::now()),
        }
    }

    /// Something may wait where it has not looked: it looks everywhere, whether it was refused or not.
    pub(super) fn owe(&mut self) {
        self.scan.owe();
        self.admitted = true;
        self.again = None;
    }

    /// It was refused, and as far as this node knows it would be again.
    pub(super) fn is_refused(&self, now: Instant) -> bool {
        self.again.is_some_and(|again| now < again) && (self.timed || !self.have_ended())
    }

    /// A claim for it begins to count. What ends from now on is not in what it says.
    pub(super) fn asks(&mut self) {
        self.ends = self.counted.iter().map(|limit| limit.ends()).collect();
    }

    /// Jobs under its limits have ended since its last claim began to count.
    fn have_ended(&self) -> bool {
        self.counted.iter().zip(&self.ends).any(|(limit, before)| limit.ends() != *before)
    }

    /// If it was refused, each end of a job under its limits wakes its dispatcher from now on. Returns whether one has ended before that.
    pub(super) fn wait_for_ends(&self, queue: &str) -> bool {
        if self.again.is_none() || self.timed {
            return false;
        }
        for limit in &self.counted {
            limit.refused(queue);
        }
        self.have_ended()
    }

    /// Another group was refused because of the limit of the queue alone: what had ended before that has made no room for this one either.
    pub(super) fn is_refused_with(&mut self, other: &[Arc<Limit>], ends: &[u64]) {
        if let ([limit], [before], Some(mine), Some(known)) = (other, ends, self.counted.first(), self.ends.first_mut())
            && Arc::ptr_eq(limit, mine)
        {
            *known = *before;
        }
    }

    /// How many jobs had ended under each of its limits before its last claim.
    pub(super) fn ends(&self) -> Vec<u64> {
        self.ends.clone()
    }

    /// A claim failed.
    pub(super) fn failed(&mut self, look: &Look, error: &Error, now: Instant) {
        self.scan.failed(look, now);
        if !error.kept_nothing() {
            // It may have written more than there are, and it may still run.
            self.owe_a_claim();
        }
    }

    /// A claim of nothing has to follow under each of its limits.
    pub(super) fn owe_a_claim(&self) {
        for limit in &self.counted {
            limit.owe();
        }
    }

    /// A claim allowed some.
    pub(super) fn was_allowed(&mut self) {
        self.patience = REFUSED;
    }

    /// Its limits allow no more: at least for so long, if it is known.
    pub(super) fn was_refused(&mut self, wait: Option<Duration>, now: Instant) {
        self.timed = wait.is_some();
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
        groups.push(Group::new(vec![name.clone()], limited.cloned(), queue_limit.as_ref(), kind_limit));
    }
    for group in &mut groups {
        if let Some(at) = before.iter().position(|old| old.kinds == group.kinds) {
            group.scan = before.swap_remove(at).scan;
            group.scan.owe();
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::Postgres;
    use crate::executor::limits::{Limits, Running};

    /// Under the limit of the queue, and one of these kinds.
    fn groups(kinds: [Option<&str>; 2]) -> [Group<Postgres>; 2] {
        let queues: HashMap<_, _> = [("q".to_owned(), Arc::new(Queue::new("q".to_owned(), 10)))].into();
        let limits = Limits::default();
        let kind = |name: &str| (Scope::Kind, name.to_owned());
        limits.set([(Scope::Queue, "q".to_owned())].into_iter().chain(kinds.into_iter().flatten().map(kind)).collect());
        kinds.map(|name| {
            let kind_limit = name.and_then(|name| limits.of(Scope::Kind, name, &queues));
            Group::new(Vec::new(), None, limits.of(Scope::Queue, "q", &queues).as_ref(), kind_limit)
        })
    }

    /// Asks, and is refused.
    fn refuse(group: &mut Group<Postgres>) -> bool {
        group.asks();
        group.was_refused(None, Instant::now());
        group.wait_for_ends("q")
    }

    #[test]
    fn what_has_ended_before_it_waits_is_not_missed() {
        let [mut group, _] = groups([None, None]);
        let running = [(); 2].map(|()| Running::new(&group.counted));
        group.asks();
        let [first, second] = running;
        drop(first);
        group.was_refused(None, Instant::now());
        assert!(group.wait_for_ends("q"), "between its claim and its refusal");
        assert!(!refuse(&mut group) && group.is_refused(Instant::now()));
        drop(second);
        assert!(!group.is_refused(Instant::now()));
    }

    /// The first asks for what has ended, and is refused because of its kind.
    #[test]
    fn one_that_is_refused_does_not_hide_from_another_what_has_ended() {
        let [mut first, mut second] = groups([Some("x"), None]);
        let running = Running::new(&second.counted);
        assert!(!refuse(&mut first) && !refuse(&mut second));
        drop(running);
        assert!(!first.is_refused(Instant::now()));
        assert!(!refuse(&mut first));
        assert!(!second.is_refused(Instant::now()));
    }

    /// Of those under the limit of the queue alone.
    #[test]
    fn what_had_ended_before_one_was_refused_makes_no_room_for_the_others() {
        let [mut first, mut second] = groups([None, Some("x")]);
        let running = [(); 2].map(|()| Running::new(&second.counted));
        assert!(!refuse(&mut second));
        let [one, other] = running;
        drop(one);
        assert!(!second.is_refused(Instant::now()), "its kind has more room");
        assert!(!refuse(&mut second) && !refuse(&mut first));
        drop(Running::new(&first.counted));
        assert!(!refuse(&mut first));
        second.is_refused_with(&first.counted, &first.ends());
        assert!(second.is_refused(Instant::now()));
        drop(other);
        assert!(!second.is_refused(Instant::now()));
    }

    #[test]
    fn no_end_makes_room_under_a_rate() {
        let [mut group, _] = groups([None, None]);
        let running = Running::new(&group.counted);
        group.asks();
        group.was_refused(Some(Duration::from_secs(9)), Instant::now());
        drop(running);
        assert!(!group.wait_for_ends("q") && group.is_refused(Instant::now()));
    }

    #[test]
    fn a_look_at_everything_does_not_wait() {
        let [mut group, _] = groups([None, None]);
        assert!(!refuse(&mut group) && group.is_refused(Instant::now()));
        group.owe();
        assert!(!group.is_refused(Instant::now()));
    }
}
