//! The operations in a history of unique jobs, and the expected holder of each key. It is derived from the states of jobs, without anything that a
//! store knows of keys.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::internal::engine::Verdict;
use jobwright::{JobId, NewJob, Payload, Unique};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use crate::state_machine::player::Outcome;
use crate::support::jobs::LATER;

pub(crate) const NODES: usize = 2;
pub(crate) const QUEUES: [&str; 2] = ["default", "other"];
/// The unit of time here.
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

pub(crate) type States = BTreeMap<JobId, JobState>;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Send { sent: Vec<Message>, way: Way },
    Together(Vec<Message>, Vec<Message>),
    Race { sent: Message, node: usize, queue: usize },
    Admit,
    Claim { node: usize, queue: usize, limit: usize },
    Complete { claims: Vec<usize> },
    Settle { claim: usize, verdict: Verdict },
    HandOut { queue: usize, limit: usize },
    Report { out: usize, done: bool },
    TakeBack { out: usize },
    Promote,
    Perish { node: usize },
    ReleaseLost,
    Retire { node: usize },
    Cancel { job: usize },
    Delete { job: usize },
    Requeue,
    Suspend { job: usize },
    Resume,
    RunNow,
    Move { job: usize, queue: usize },
    Pass(u32),
    Expire,
}

/// How a flush reaches the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Alone,
    /// Preclaimed by this node.
    Owned(usize),
    Committed,
    RolledBack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum By {
    Key,
    Payload,
    Fields,
}

/// What must be unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    by: By,
    n: u8,
    queue: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Done,
    Waiting,
    /// Minutes.
    Period(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clash {
    Keep,
    Replace,
    Reject,
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// `None`: not unique.
    unique: Option<(Key, Hold, Clash)>,
    queue: usize,
    later: bool,
    group: bool,
    pub(crate) given: Option<usize>,
}

fn unique() -> impl Strategy<Value = (By, u8, bool, Hold, Clash)> {
    let by = prop_oneof![3 => Just(By::Key), 1 => Just(By::Payload), 2 => Just(By::Fields)];
    let hidden_for = prop_oneof![3 => Just(Hold::Done), 3 => Just(Hold::Waiting), 2 => (1_u32..=3).prop_map(|n| Hold::Period(n * 10))];
    let clash = prop_oneof![3 => Just(Clash::Keep), 3 => Just(Clash::Replace), 1 => Just(Clash::Reject)];
    (by, 0_u8..2, prop::bool::weighted(0.2), hidden_for, clash)
}

fn message() -> impl Strategy<Value = Message> {
    let given = prop::option::weighted(0.15, 0_usize..2);
    let rest = (prop::bool::weighted(0.3), prop::bool::weighted(0.2), prop::bool::weighted(0.2), given);
    (prop::option::weighted(0.9, unique()), rest).prop_map(|(unique, (other, later, group, given))| {
        // Each id is sent to one queue only: in another one it would be that of another job, which is refused.
        let queue = given.unwrap_or(usize::from(other));
        let unique = unique
            .map(|(by, n, apart, hidden_for, clash)| (Key { by, n, queue: apart.then_some(queue) }, hidden_for, clash));
        Message { unique, queue, later, group, given }
    })
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        3 => Just(Verdict::Retry(Duration::ZERO)),
        1 => Just(Verdict::Retry(LATER)),
        1 => Just(Verdict::Snooze(Duration::ZERO)),
        1 => Just(Verdict::Release),
        1 => Just(Verdict::Cancel),
        2 => Just(Verdict::Dead),
    ]
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![
        4 => Just(Way::Alone),
        1 => (0..NODES).prop_map(Way::Owned),
        1 => Just(Way::Committed),
        1 => Just(Way::RolledBack),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let bulk = || vec(message(), 1..6);
    let (node, queue, job) = (0..NODES, 0..QUEUES.len(), 0_usize..10);
    prop_oneof![
        10 => (bulk(), way()).prop_map(|(sent, way)| Op::Send { sent, way }),
        3 => (bulk(), bulk()).prop_map(|(one, other)| Op::Together(one, other)),
        3 => (message(), node.clone(), queue.clone()).prop_map(|(sent, node, queue)| Op::Race { sent, node, queue }),
        2 => Just(Op::Admit),
        6 => (node.clone(), queue.clone(), 1_usize..4)
            .prop_map(|(node, queue, limit)| Op::Claim { node, queue, limit }),
        4 => vec(0_usize..6, 1..4).prop_map(|claims| Op::Complete { claims }),
        4 => (0_usize..6, verdict()).prop_map(|(claim, verdict)| Op::Settle { claim, verdict }),
        2 => (queue.clone(), 1_usize..3).prop_map(|(queue, limit)| Op::HandOut { queue, limit }),
        2 => (0_usize..4, any::<bool>()).prop_map(|(out, done)| Op::Report { out, done }),
        1 => (0_usize..4).prop_map(|out| Op::TakeBack { out }),
        3 => Just(Op::Promote),
        1 => node.clone().prop_map(|node| Op::Perish { node }),
        1 => Just(Op::ReleaseLost),
        1 => node.prop_map(|node| Op::Retire { node }),
        1 => job.clone().prop_map(|job| Op::Cancel { job }),
        1 => job.clone().prop_map(|job| Op::Delete { job }),
        1 => Just(Op::Requeue),
        2 => job.clone().prop_map(|job| Op::Suspend { job }),
        1 => Just(Op::Resume),
        1 => Just(Op::RunNow),
        1 => (job, queue).prop_map(|(job, queue)| Op::Move { job, queue }),
        3 => (1_u32..=4).prop_map(|n| Op::Pass(n * 5)),
        1 => Just(Op::Expire),
    ]
}

/// Up to `longest` operations, one after the other or at once.
pub(crate) fn history(longest: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(op(), longest / 4..=longest)
}

impl Key {
    /// Returns all of them.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        [By::Key, By::Payload, By::Fields].into_iter().flat_map(|by| {
            let queues = [None, Some(0), Some(1)];
            queues.into_iter().flat_map(move |queue| [0, 1].map(|n| Self { by, n, queue }))
        })
    }

    /// Returns a message that must get this key, or fails.
    pub(crate) fn strict(self) -> Message {
        let unique = Some((self, Hold::Done, Clash::Reject));
        Message { unique, queue: self.queue.unwrap_or(0), later: false, group: false, given: None }
    }
}

impl Message {
    /// Builds the job; `serial` is in a part that is not compared.
    pub(crate) fn make(&self, serial: u32) -> NewJob {
        let (by, n) = self.unique.map_or((By::Key, 0), |(key, ..)| (key.by, key.n));
        let payload = match by {
            By::Key => Payload::json(&serial),
            By::Fields => Payload::json(&json!({ "customer": { "id": n }, "why": serial })),
            By::Payload if serial.is_multiple_of(2) => Payload::json_text(format!("{{\"n\":{n},\"m\":[1,2]}}")),
            By::Payload => Payload::json_text(format!("{{ \"m\": [1, 2],\n \"n\": {n} }}")),
        };
        let mut job = NewJob::new("kind", payload.unwrap()).queue(QUEUES[self.queue]).max_attempts(3);
        if let Some((key, hidden_for, clash)) = self.unique {
            let mut unique = match by {
                By::Key => Unique::key(format!("k{n}")),
                By::Payload => Unique::payload(),
                By::Fields => Unique::fields(["/customer/id"]),
            };
            unique = if key.queue.is_some() { unique.per_queue() } else { unique };
            unique = match hidden_for {
                Hold::Done => unique,
                Hold::Waiting => unique.while_waiting(),
                Hold::Period(minutes) => unique.for_period(MINUTE * minutes),
            };
            job = job.unique(match clash {
                Clash::Keep => unique,
                Clash::Replace => unique.replace(),
                Clash::Reject => unique.reject(),
            });
        }
        let job = if self.group { job.exclusive("g") } else { job };
        if self.later { job.delay(LATER) } else { job }
    }
}

fn waits(state: JobState) -> bool {
    matches!(state, JobState::Waiting | JobState::Blocked | JobState::Timer | JobState::Suspended)
}

/// The predicted effect of a flush.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forecast {
    pub(crate) rejected: bool,
    pub(crate) accepted: BTreeSet<JobId>,
    pub(crate) replaced: BTreeSet<JobId>,
    /// The duplicates, with the job that each was a duplicate of.
    pub(crate) kept: BTreeMap<JobId, JobId>,
}

impl Forecast {
    pub(crate) fn sum(all: &[Self]) -> Self {
        let mut sum = Self::default();
        for one in all {
            sum.accepted.extend(&one.accepted);
            sum.replaced.extend(&one.replaced);
        }
        sum.accepted.retain(|id| !sum.replaced.contains(id));
        sum
    }

    /// Checks that exactly these jobs came and went.
    pub(crate) fn compare(&self, before: &States, after: &States) -> Outcome<()> {
        let mut expected: BTreeSet<JobId> = before.keys().copied().collect();
        expected.extend(&self.accepted);
        expected.retain(|id| !self.replaced.contains(id));
        if after.keys().eq(&expected) {
            Ok(())
        } else {
            Err(format!("{before:?} became {after:?}, foretold: {self:?}"))
        }
    }
}

/// A job that was sent with a key.
#[derive(Clone, Debug)]
struct Held {
    key: Key,
    id: JobId,
    hidden_for: Hold,
    /// When it was sent.
    at: u32,
    /// Whether it has started, or died.
    begun: bool,
}

impl Held {
    fn is_over(&self, now: u32) -> bool {
        matches!(self.hidden_for, Hold::Period(minutes) if now >= self.at + minutes)
    }
}

/// All jobs sent with a key, in order, as long as they matter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// In minutes. Each step takes a little time, so what was to end now has ended.
    pub(crate) now: u32,
    sent: Vec<Held>,
    /// The holder of each key. A job that lost its key while it ran does not get it back when it waits again.
    keys: BTreeMap<Key, Held>,
}

impl Ledger {
    /// Returns the holder of a key, and whether it can be replaced.
    fn holder(&self, key: Key, states: &States) -> Option<(JobId, bool)> {
        let held = self.keys.get(&key)?;
        let state = states.get(&held.id).copied();
        let holds = match held.hidden_for {
            Hold::Done => state.is_some(),
            Hold::Waiting => state.is_some_and(waits),
            Hold::Period(_) => !held.is_over(self.now),
        };
        let loose = state.is_some_and(|state| waits(state) && state != JobState::Suspended);
        holds.then_some((held.id, loose))
    }

    /// Predicts the effect of a flush, and applies it here.
    pub(crate) fn foretell(&mut self, before: &States, flush: &[(JobId, Message)]) -> Forecast {
        let start = self.clone();
        let mut forecast = Forecast::default();
        let mut firsts: BTreeMap<Key, JobId> = BTreeMap::new();
        for (id, message) in flush {
            // An existing id changes nothing, whatever key it has.
            if before.contains_key(id) {
                continue;
            }
            let Some((key, hidden_for, clash)) = message.unique else {
                forecast.accepted.insert(*id);
                continue;
            };
            let mut holder = self.holder(key, before);
            if let Some(first) = firsts.get(&key) {
                // Of several in one flush the first counts, also if it was a duplicate itself.
                holder = Some((forecast.kept.get(first).copied().unwrap_or(*first), false));
            }
            firsts.entry(key).or_insert(*id);
            match (holder, clash) {
                // Its own period is not over.
                (Some((holder, _)), _) if holder == *id => {
                    forecast.kept.insert(*id, holder);
                    continue;
                }
                (Some(_), Clash::Reject) => {
                    *self = start;
                    return Forecast { rejected: true, ..Forecast::default() };
                }
                (Some((holder, true)), Clash::Replace) => {
                    forecast.replaced.insert(holder);
                    self.sent.retain(|held| held.id != holder);
                }
                (Some((holder, _)), _) => {
                    forecast.kept.insert(*id, holder);
                    continue;
                }
                (None, _) => {}
            }
            forecast.accepted.insert(*id);
            let held = Held { key, id: *id, hidden_for, at: self.now, begun: false };
            self.keys.insert(key, held.clone());
            self.sent.push(held);
        }
        forecast
    }

    /// Checks that no two jobs exist that exclude each other, and forgets jobs that are gone.
    pub(crate) fn look(&mut self, states: &States) -> Outcome<()> {
        let now = self.now;
        for held in &mut self.sent {
            held.begun |= states.get(&held.id).is_some_and(|state| !waits(*state));
        }
        let matters = |held: &Held| match held.hidden_for {
            Hold::Period(_) => !held.is_over(now) || states.contains_key(&held.id),
            _ => states.contains_key(&held.id),
        };
        self.sent.retain(matters);
        self.keys.retain(|_, held| matters(held));
        for (n, one) in self.sent.iter().enumerate() {
            for other in self.sent[n + 1..].iter().filter(|other| other.key == one.key) {
                let excludes = match one.hidden_for {
                    Hold::Done => true,
                    Hold::Waiting => !one.begun,
                    Hold::Period(minutes) => other.at < one.at + minutes,
                };
                if excludes {
                    return Err(format!("{one:?} and {other:?} are there together"));
                }
            }
        }
        Ok(())
    }
}
