//! The operations, and how often they occur.

use jobwright::admin::JobState;
use jobwright::internal::engine::{ScanCursor, ScanRange};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// How many nodes there are at a time.
pub(crate) const NODES: usize = 3;
pub(crate) const QUEUES: [&str; 2] = ["default", "other"];
pub(crate) const KINDS: [&str; 3] = ["a", "b", "c"];
/// How many given ids there are: few, so that they collide.
pub(crate) const GIVEN: usize = 5;

/// The part of a queue that a claim scans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    /// From where the last claim of this queue ended.
    On,
    /// Up to there.
    Passed,
}

impl Part {
    pub(crate) fn of(self, cursor: Option<&ScanCursor>) -> ScanRange<'_> {
        match (self, cursor) {
            (Self::Whole, _) | (_, None) => ScanRange::All,
            (Self::On, Some(cursor)) => ScanRange::after(std::slice::from_ref(cursor)),
            (Self::Passed, Some(cursor)) => ScanRange::UpTo(*cursor),
        }
    }
}

/// An operation. Numbers are taken modulo the number of choices, so every history makes sense.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Messages in one batch, perhaps preclaimed.
    Send {
        messages: Vec<Message>,
        owned_by: Option<usize>,
    },
    /// A claim, sometimes by a node that is gone, and sometimes of a part of the queue.
    Claim {
        node: usize,
        queue: usize,
        kinds: Option<Vec<usize>>,
        limit: usize,
        part: Part,
        include_hidden: bool,
    },
    /// Deliveries of existing jobs, some of them old.
    Deliver {
        node: usize,
        jobs: Vec<(usize, bool)>,
        kinds: Option<Vec<usize>>,
    },
    /// Deliveries that will not arrive.
    Unhide {
        jobs: Vec<usize>,
    },
    HandOut {
        queue: usize,
        limit: usize,
    },
    /// Old hand-outs are reported too.
    TakeBack {
        outs: Vec<usize>,
    },
    CompleteExternal {
        outs: Vec<usize>,
    },
    SettleExternal {
        outcomes: Vec<(usize, AttemptOutcome)>,
    },
    ExpireExternal {
        limit: usize,
    },
    /// Old claims are reported too: by their own node, or by another.
    Complete {
        node: usize,
        claims: Vec<usize>,
    },
    Settle {
        node: usize,
        outcomes: Vec<(usize, AttemptOutcome)>,
    },
    Promote {
        limit: usize,
    },
    /// The node stops, and gives back its jobs; another one takes its place.
    Retire {
        node: usize,
    },
    /// The node crashes, and its jobs are lost; another one takes its place.
    Perish {
        node: usize,
    },
    ReleaseLost {
        limit: usize,
    },
    /// The node forgets some of the jobs it owns.
    ReleaseUnknown {
        node: usize,
        forgets: usize,
    },
    Suspend {
        job: usize,
    },
    Steer {
        how: Steer,
        filter: Filter,
        dry_run: bool,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) kind: usize,
    pub(crate) queue: usize,
    pub(crate) priority: i16,
    pub(crate) max_attempts: u32,
    pub(crate) later: bool,
    pub(crate) given: Option<usize>,
    pub(crate) own: bool,
    pub(crate) held: bool,
    pub(crate) asks: bool,
}

/// An outcome other than success.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AttemptOutcome {
    RetryNow,
    RetryLater,
    SnoozeNow,
    SnoozeLater,
    Release,
    Cancel,
    Dead,
    /// Without an error.
    Silent,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Steer {
    Retry,
    Cancel,
    Delete,
}

#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) state: Option<JobState>,
    pub(crate) queue: Option<usize>,
    pub(crate) kind: Option<usize>,
    /// Every job whose number, modulo 3, is this.
    pub(crate) ids: Option<usize>,
}

fn message() -> impl Strategy<Value = Message> {
    let given = option::weighted(0.3, 0..GIVEN);
    (
        0..KINDS.len(),
        0..QUEUES.len(),
        -1_i16..=1,
        1_u32..=3,
        prop::bool::weighted(0.2),
        given,
        any::<bool>(),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.2),
    )
        .prop_map(|(kind, queue, priority, max_attempts, later, given, own, held, asks)| Message {
            kind,
            // Mostly one queue, so that it has several jobs to choose from.
            queue: if kind == 0 { queue } else { 0 },
            priority,
            max_attempts,
            later,
            given,
            own,
            held,
            asks,
        })
}

fn ending() -> impl Strategy<Value = AttemptOutcome> {
    prop_oneof![
        4 => Just(AttemptOutcome::RetryNow),
        1 => Just(AttemptOutcome::RetryLater),
        2 => Just(AttemptOutcome::SnoozeNow),
        1 => Just(AttemptOutcome::SnoozeLater),
        2 => Just(AttemptOutcome::Release),
        1 => Just(AttemptOutcome::Cancel),
        1 => Just(AttemptOutcome::Dead),
        1 => Just(AttemptOutcome::Silent),
    ]
}

fn filter() -> impl Strategy<Value = Filter> {
    let state = option::of(prop::sample::select(JobState::ALL.to_vec()));
    (state, option::weighted(0.3, 0..QUEUES.len()), option::weighted(0.3, 0..KINDS.len()), option::of(0_usize..3))
        .prop_map(|(state, queue, kind, ids)| Filter { state, queue, kind, ids })
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![5 => Just(Part::Whole), 2 => Just(Part::On), 2 => Just(Part::Passed)]
}

fn op() -> impl Strategy<Value = Op> {
    let node = || 0..NODES;
    // Mostly the newest claims, sometimes old ones.
    let claim = || prop_oneof![4 => 0_usize..4, 1 => 0_usize..40];
    prop_oneof![
        6 => (vec(message(), 1..4), option::weighted(0.3, 0..=NODES * 4))
            .prop_map(|(messages, owned_by)| Op::Send { messages, owned_by }),
        8 => (0..=NODES * 4, 0..QUEUES.len(), option::weighted(0.3, vec(0..KINDS.len(), 0..3)), 1_usize..5,
              part(), prop::bool::weighted(0.3))
            .prop_map(|(node, queue, kinds, limit, part, include_hidden)| Op::Claim { node, queue, kinds, limit, part, include_hidden }),
        3 => (0..=NODES * 4, vec((0_usize..20, prop::bool::weighted(0.2)), 1..5), option::weighted(0.2, vec(0..KINDS.len(), 0..3)))
            .prop_map(|(node, jobs, kinds)| Op::Deliver { node, jobs, kinds }),
        1 => vec(0_usize..20, 1..4).prop_map(|jobs| Op::Unhide { jobs }),
        3 => (0..QUEUES.len(), 1_usize..4).prop_map(|(queue, limit)| Op::HandOut { queue, limit }),
        1 => vec(claim(), 1..4).prop_map(|outs| Op::TakeBack { outs }),
        1 => vec(claim(), 1..4).prop_map(|outs| Op::CompleteExternal { outs }),
        2 => vec((claim(), ending()), 1..4).prop_map(|outcomes| Op::SettleExternal { outcomes }),
        1 => (1_usize..4).prop_map(|limit| Op::ExpireExternal { limit }),
        3 => (0..=NODES * 4, vec(claim(), 1..4)).prop_map(|(node, claims)| Op::Complete { node, claims }),
        6 => (0..=NODES * 4, vec((claim(), ending()), 1..6)).prop_map(|(node, outcomes)| Op::Settle { node, outcomes }),
        3 => (1_usize..4).prop_map(|limit| Op::Promote { limit }),
        1 => node().prop_map(|node| Op::Retire { node }),
        2 => node().prop_map(|node| Op::Perish { node }),
        2 => (1_usize..4).prop_map(|limit| Op::ReleaseLost { limit }),
        1 => (node(), 1_usize..4).prop_map(|(node, forgets)| Op::ReleaseUnknown { node, forgets }),
        1 => (0_usize..20).prop_map(|job| Op::Suspend { job }),
        2 => (prop_oneof![3 => Just(Steer::Retry), 1 => Just(Steer::Cancel), 1 => Just(Steer::Delete)], filter(),
              prop::bool::weighted(0.2))
            .prop_map(|(how, filter, dry_run)| Op::Steer { how, filter, dry_run }),
    ]
}

/// Up to `longest` operations, one after the other.
pub(crate) fn history(longest: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(op(), longest / 4..=longest)
}
