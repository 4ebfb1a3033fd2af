//! Kinds that are claimed together.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::jitter;
use crate::error::Error;
use crate::executor::dispatch::scan::{Scan, ScanPlan};
use crate::executor::kinds::kind::Kind;
use crate::executor::node::Node;
use crate::executor::node::limits::Limit;
use crate::executor::node::queue::Queue;
use crate::store::Scope;

/// How soon a limit that allowed no more is asked again at first: other nodes' jobs may have ended.
const REFUSED: Duration = Duration::from_millis(20);
/// The longest such delay where no hint tells that a limit has room; after a hint, a set asks again when this time is over. Each refusal doubles the delay.
const LONGEST_UNTOLD: Duration = Duration::from_secs(1);
/// The longest where other nodes tell when they leave some of the limit (`Allowed::yields`). Polls come sooner by default. A node's demand counts for
/// 15 s (`allowance` in the schema): a delay that is longer than that, with its jitter, would cost it its share of the limit.
const LONGEST_TOLD: Duration = Duration::from_secs(10);

/// Kinds that are claimed together: all without their own limit, or one that has a limit. So a node never takes more jobs of a limited kind
/// than it can start.
pub(crate) struct KindSet {
    pub(crate) kinds: Vec<String>,
    /// The kind, if it has a limit on this node.
    pub(crate) limited: Option<Arc<Kind>>,
    /// The kind's limit across all nodes, which its claims count.
    kind_limit: Option<Arc<Limit>>,
    /// The limit of the queue and that of the kind, always in this order: their locks are taken in it.
    pub(crate) counted: Vec<Arc<Limit>>,
    /// Whether these limits kept the last claim from taking more. Then the next claim replaces the jobs that ended.
    pub(crate) bound: bool,
    /// When to ask again after these limits allowed no more and jobs wait, unless a job ends before that.
    pub(crate) again: Option<Instant>,
    /// A rate is used up: the end of a job frees no capacity.
    timed: bool,
    /// How many jobs had ended under each limit before the last claim.
    ends: Vec<u64>,
    /// How soon after a refusal the set asks again.
    patience: Duration,
    /// When it was refused last.
    refused: Option<Instant>,
    /// Whether jobs may have been admitted since the last claim that looked for them.
    pub(crate) admitted: bool,
    pub(crate) scan: Scan,
}

impl KindSet {
    fn new(
        kinds: Vec<String>,
        limited: Option<Arc<Kind>>,
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
            refused: None,
            admitted: true,
            scan: Scan::new(Instant::now()),
        }
    }

    /// Notes that jobs may wait outside the scanned range. The next scan covers the whole queue, even after a refusal.
    pub(crate) fn owe(&mut self) {
        self.scan.owe();
        self.admitted = true;
        self.again = None;
    }

    /// Returns whether the set was refused and, as far as this node knows, would be refused again.
    pub(crate) fn is_refused(&self, now: Instant) -> bool {
        self.again.is_some_and(|again| now < again) && (self.timed || !self.have_ended())
    }

    /// Notes that a claim begins to count. Jobs that end from now on are not in its counts.
    pub(crate) fn asks(&mut self) {
        self.ends = self.counted.iter().map(|limit| limit.ends()).collect();
    }

    /// Returns whether jobs under its limits have ended since its last claim began to count.
    fn have_ended(&self) -> bool {
        self.counted.iter().zip(&self.ends).any(|(limit, before)| limit.ends() != *before)
    }

    /// After a refusal, makes each end of a job under its limits wake its dispatcher. Returns whether one ended before this call.
    pub(crate) fn wait_for_ends(&self, queue: &str) -> bool {
        if self.again.is_none() || self.timed {
            return false;
        }
        for limit in &self.counted {
            limit.refused(queue);
        }
        self.have_ended()
    }

    /// Notes that another set was refused because of the queue's limit alone. The ends before that freed no capacity for this set
    /// either.
    pub(crate) fn is_refused_with(&mut self, other: &[Arc<Limit>], ends: &[u64]) {
        if let ([limit], [before], Some(mine), Some(known)) = (other, ends, self.counted.first(), self.ends.first_mut())
            && Arc::ptr_eq(limit, mine)
        {
            *known = *before;
        }
    }

    /// Returns how many jobs had ended under each of its limits before its last claim.
    pub(crate) fn ends(&self) -> Vec<u64> {
        self.ends.clone()
    }

    /// Notes that a claim failed.
    pub(crate) fn failed(&mut self, plan: &ScanPlan, error: &Error, now: Instant) {
        self.scan.failed(plan, now);
        if !error.kept_nothing() {
            // It may have counted more jobs than it took, and it may still run.
            self.owe_a_claim();
        }
    }

    /// Makes each of its limits require another claim, even one of nothing, so that the counts are written again.
    pub(crate) fn owe_a_claim(&self) {
        for limit in &self.counted {
            limit.owe();
        }
    }

    /// Notes that a claim allowed some jobs.
    pub(crate) fn was_allowed(&mut self) {
        self.patience = REFUSED;
    }

    /// Notes that its limits allow no more: at least for `wait`, if that is known. `told`: whether a hint says when they do.
    pub(crate) fn was_refused(&mut self, wait: Option<Duration>, told: bool, now: Instant) {
        let longest = if told { LONGEST_TOLD } else { LONGEST_UNTOLD };
        self.timed = wait.is_some();
        self.refused = Some(now);
        self.again = Some(now + wait.unwrap_or_else(|| jitter(self.patience.min(longest))));
        self.patience = (2 * self.patience).min(longest);
    }

    /// Notes a hint that its limits may have room. Many come where jobs of groups start and end, so it asks no more often than once a second.
    pub(crate) fn may_have_room(&mut self) {
        if let (Some(again), Some(refused), false) = (self.again, self.refused, self.timed) {
            self.again = Some(again.min(refused + LONGEST_UNTOLD));
        }
    }
}

/// Returns the sets of the kinds that a node can run, under the present rules. Sets with the same kinds as before keep their scan.
pub(crate) fn kind_sets(node: &Node, queue: &Queue, mut before: Vec<KindSet>) -> Vec<KindSet> {
    let queue_limit = node.limits.of(Scope::Queue, &queue.name, &node.queues);
    let mut sets: Vec<KindSet> = Vec::new();
    for (name, kind) in node.kinds.iter().filter(|(_, kind)| !kind.breaker.is_open()) {
        let kind_limit = node.limits.of(Scope::Kind, name, &node.queues);
        let limited = kind.slots.as_ref().map(|_| kind);
        let known = sets.iter_mut().find(|set| {
            // Another name of the same kind shares its limit on this node.
            set.limited.as_ref().map(Arc::as_ptr) == limited.map(Arc::as_ptr)
                && set.kind_limit.is_none()
                && kind_limit.is_none()
        });
        if let Some(set) = known {
            set.kinds.push(name.clone());
            continue;
        }
        sets.push(KindSet::new(vec![name.clone()], limited.cloned(), queue_limit.as_ref(), kind_limit));
    }
    for set in &mut sets {
        if let Some(at) = before.iter().position(|old| old.kinds == set.kinds) {
            set.scan = before.swap_remove(at).scan;
            set.scan.owe();
        }
    }
    sets
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::executor::node::limits::{CountedLimits, Running};

    /// Makes two sets under the limit of the queue, each also under the given limit of its kind, if any.
    fn sets(kinds: [Option<&str>; 2]) -> [KindSet; 2] {
        let queues: HashMap<_, _> = [("q".to_owned(), Arc::new(Queue::new("q".to_owned(), 10)))].into();
        let limits = CountedLimits::default();
        let kind = |name: &str| (Scope::Kind, name.to_owned());
        limits.set([(Scope::Queue, "q".to_owned())].into_iter().chain(kinds.into_iter().flatten().map(kind)).collect());
        kinds.map(|name| {
            let kind_limit = name.and_then(|name| limits.of(Scope::Kind, name, &queues));
            KindSet::new(Vec::new(), None, limits.of(Scope::Queue, "q", &queues).as_ref(), kind_limit)
        })
    }

    /// Claims and is refused. Returns whether a job has ended meanwhile.
    fn refuse(set: &mut KindSet) -> bool {
        set.asks();
        set.was_refused(None, true, start());
        set.wait_for_ends("q")
    }

    /// The time of each refusal and of each question in a test, however long the test takes: the first delay is only 20 ms.
    fn start() -> Instant {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *START.get_or_init(Instant::now)
    }

    #[test]
    fn what_has_ended_before_it_waits_is_not_missed() {
        let [mut set, _] = sets([None, None]);
        let running = [(); 2].map(|()| Running::new(&set.counted));
        set.asks();
        let [first, second] = running;
        drop(first);
        set.was_refused(None, true, start());
        assert!(set.wait_for_ends("q"), "between its claim and its refusal");
        assert!(!refuse(&mut set) && set.is_refused(start()));
        assert!(!set.is_refused(start() + 2 * LONGEST_TOLD), "it asks again in the end");
        drop(second);
        assert!(!set.is_refused(start()));
    }

    /// The first set notices the end first, and is refused because of its kind.
    #[test]
    fn one_that_is_refused_does_not_hide_from_another_what_has_ended() {
        let [mut first, mut second] = sets([Some("x"), None]);
        let running = Running::new(&second.counted);
        assert!(!refuse(&mut first) && !refuse(&mut second));
        drop(running);
        assert!(!first.is_refused(start()));
        assert!(!refuse(&mut first));
        assert!(!second.is_refused(start()));
    }

    /// "Others": sets under the limit of the queue alone.
    #[test]
    fn what_had_ended_before_one_was_refused_makes_no_room_for_the_others() {
        let [mut first, mut second] = sets([None, Some("x")]);
        let running = [(); 2].map(|()| Running::new(&second.counted));
        assert!(!refuse(&mut second));
        let [one, other] = running;
        drop(one);
        assert!(!second.is_refused(start()), "its kind has more room");
        assert!(!refuse(&mut second) && !refuse(&mut first));
        drop(Running::new(&first.counted));
        assert!(!refuse(&mut first));
        second.is_refused_with(&first.counted, &first.ends());
        assert!(second.is_refused(start()));
        drop(other);
        assert!(!second.is_refused(start()));
    }

    #[test]
    fn no_end_makes_room_under_a_rate() {
        let [mut set, _] = sets([None, None]);
        let running = Running::new(&set.counted);
        set.asks();
        set.was_refused(Some(Duration::from_secs(9)), true, Instant::now());
        drop(running);
        assert!(!set.wait_for_ends("q") && set.is_refused(start()));
    }

    #[test]
    fn a_look_at_everything_does_not_wait() {
        let [mut set, _] = sets([None, None]);
        assert!(!refuse(&mut set) && set.is_refused(start()));
        set.owe();
        assert!(!set.is_refused(start()));
    }

    #[test]
    fn a_set_asks_rarely_where_hints_tell_and_soon_after_one() {
        let longest = |told| {
            let [mut set, _] = sets([None, None]);
            let now = Instant::now();
            (0..20).for_each(|_| set.was_refused(None, told, now));
            (set.again.unwrap() - now, set)
        };
        let (untold, _) = longest(false);
        assert!(untold <= LONGEST_UNTOLD.mul_f64(1.2), "{untold:?}");
        let (told, mut set) = longest(true);
        assert!(told >= LONGEST_TOLD.mul_f64(0.8), "{told:?}");
        set.may_have_room();
        assert!(set.again.unwrap() <= set.refused.unwrap() + LONGEST_UNTOLD);
        // It is about time, and no hint changes that.
        set.was_refused(Some(LONGEST_TOLD), true, Instant::now());
        let again = set.again;
        set.may_have_room();
        assert_eq!(set.again, again);
    }
}
