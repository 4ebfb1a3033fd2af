//! The operations in a history of groups and limits.

use std::time::Duration;

use jobwright::NewJob;
use jobwright::admin::Scope;
use jobwright::internal::engine::Verdict;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use crate::support::jobs::LATER;

pub(crate) const NODES: usize = 3;
pub(crate) const QUEUES: [&str; 2] = ["default", "other"];
/// The unit of time here.
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
/// [`LATER`] in that unit.
pub(crate) const MUCH_LATER: u32 = 60;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Send(Vec<Message>),
    Admit,
    Claim {
        node: usize,
        queue: usize,
        limit: usize,
    },
    Complete {
        claims: Vec<usize>,
    },
    Settle {
        claim: usize,
        verdict: Verdict,
    },
    Promote,
    HandOut {
        queue: usize,
        limit: usize,
    },
    Report {
        out: usize,
        done: bool,
    },
    TakeBack {
        out: usize,
    },
    /// A node dies; another one takes its place.
    Perish {
        node: usize,
    },
    ReleaseLost,
    Retire {
        node: usize,
    },
    Remove {
        job: usize,
        delete: bool,
    },
    Requeue,
    Rule {
        scope: usize,
        running: Option<u32>,
        paused: bool,
        rate: Option<PerMinutes>,
    },
    Suspend {
        job: usize,
    },
    Resume,
    RunNow,
    Change {
        job: usize,
        priority: Option<i16>,
        due: Option<u32>,
        queue: Option<usize>,
    },
    Expire,
    /// Minutes that pass.
    Pass(u32),
}

/// This many starts within this many minutes.
pub(crate) type PerMinutes = (u32, u32);

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) group: Option<u8>,
    ordered: bool,
    pub(crate) tenant: Option<u8>,
    queue: usize,
    priority: i16,
    pub(crate) later: bool,
    /// In minutes.
    pub(crate) ttl: Option<u32>,
}

fn message() -> impl Strategy<Value = Message> {
    let group = prop::option::weighted(0.7, 0_u8..3);
    let tenant = prop::option::weighted(0.6, 0_u8..2);
    (group, any::<bool>(), tenant, prop::bool::weighted(0.2), -1_i16..=1, prop::bool::weighted(0.1)).prop_map(
        |(group, ordered, tenant, other, priority, later)| Message {
            group,
            ordered,
            tenant,
            queue: usize::from(other),
            priority,
            later,
            ttl: None,
        },
    )
}

/// A message that may have a time to live.
fn timed() -> impl Strategy<Value = Message> {
    (message(), prop::option::weighted(0.4, 1_u32..6)).prop_map(|(message, ttl)| {
        // A delay longer than the time to live is refused.
        let ttl = ttl.filter(|_| !message.later).map(|n| n * 5);
        Message { ttl, ..message }
    })
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        3 => Just(Verdict::Retry(Duration::ZERO)),
        1 => Just(Verdict::Retry(LATER)),
        1 => Just(Verdict::Snooze(Duration::ZERO)),
        1 => Just(Verdict::Release),
        1 => Just(Verdict::Cancel),
        1 => Just(Verdict::Dead),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => vec(message(), 1..5).prop_map(Op::Send),
        8 => Just(Op::Admit),
        8 => (0..NODES, 0..QUEUES.len(), 1_usize..5).prop_map(|(node, queue, limit)| Op::Claim { node, queue, limit }),
        4 => vec(0_usize..8, 1..4).prop_map(|claims| Op::Complete { claims }),
        4 => (0_usize..8, verdict()).prop_map(|(claim, verdict)| Op::Settle { claim, verdict }),
        3 => Just(Op::Promote),
        2 => (0..QUEUES.len(), 1_usize..3).prop_map(|(queue, limit)| Op::HandOut { queue, limit }),
        2 => (0_usize..4, any::<bool>()).prop_map(|(out, done)| Op::Report { out, done }),
        1 => (0_usize..4).prop_map(|out| Op::TakeBack { out }),
        2 => (0..NODES).prop_map(|node| Op::Perish { node }),
        2 => Just(Op::ReleaseLost),
        1 => (0..NODES).prop_map(|node| Op::Retire { node }),
        1 => (0_usize..10, any::<bool>()).prop_map(|(job, delete)| Op::Remove { job, delete }),
        1 => Just(Op::Requeue),
        2 => (0_usize..4, prop::option::weighted(0.6, 0_u32..3), prop::bool::weighted(0.2))
            .prop_map(|(scope, running, paused)| Op::Rule { scope, running, paused, rate: None }),
    ]
}

/// Operations that depend on the clock, and those of operators.
fn timed_op() -> impl Strategy<Value = Op> {
    let job = 0_usize..10;
    let rate = (1_u32..4, prop_oneof![Just(10_u32), Just(20)]);
    let change = (
        job.clone(),
        prop::option::of(-1_i16..=1),
        prop::option::of((0_u32..4).prop_map(|n| n * 10)),
        prop::option::weighted(0.3, 0..QUEUES.len()),
    );
    prop_oneof![
        4 => vec(timed(), 1..5).prop_map(Op::Send),
        3 => (0_usize..4, prop::option::weighted(0.3, 1_u32..3), prop::option::weighted(0.8, rate))
            .prop_map(|(scope, running, rate)| Op::Rule { scope, running, paused: false, rate }),
        4 => (1_u32..4).prop_map(|n| Op::Pass(n * 5)),
        3 => Just(Op::Expire),
        3 => job.prop_map(|job| Op::Suspend { job }),
        2 => Just(Op::Resume),
        1 => Just(Op::RunNow),
        3 => change.prop_filter_map("changes nothing", |(job, priority, due, queue)| {
            let any = priority.is_some() || due.is_some() || queue.is_some();
            any.then_some(Op::Change { job, priority, due, queue })
        }),
    ]
}

/// The same with time that passes.
pub(crate) fn timed_history(longest: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(prop_oneof![1 => op(), 1 => timed_op()], longest / 4..=longest)
}

/// Up to `longest` operations, one after the other.
pub(crate) fn history(longest: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(op(), longest / 4..=longest)
}

/// The rules in these histories.
pub(crate) const RULES: [(Scope, &str); 4] =
    [(Scope::Tenant, "t0"), (Scope::Tenant, "*"), (Scope::Queue, "default"), (Scope::Kind, "kind")];

pub(crate) fn make(message: &Message) -> NewJob {
    let mut job =
        NewJob::json("kind", &json!(1)).queue(QUEUES[message.queue]).priority(message.priority).max_attempts(3);
    if let Some(group) = message.group {
        let group = format!("g{group}");
        job = if message.ordered { job.ordered(group) } else { job.exclusive(group) };
    }
    if let Some(tenant) = message.tenant {
        job = job.tenant(format!("t{tenant}"));
    }
    if let Some(ttl) = message.ttl {
        job = job.ttl(MINUTE * ttl);
    }
    if message.later { job.delay(LATER) } else { job }
}
