//! The operations in a history of schedules, and the occurrences that have to send jobs. Time passes in half days, and every occurrence falls on one:
//! nothing here knows how a store computes or keeps them.

use std::time::Duration;

use jobwright::{JobId, Misfire, Overlap};
use proptest::collection::vec;
use proptest::prelude::*;

pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];
/// The unit of time here.
pub(crate) const TICK: Duration = Duration::from_secs(12 * 3600);

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Put {
        name: usize,
        plan: Plan,
    },
    Pause(usize),
    Resume(usize),
    RunNow(usize),
    Delete(usize),
    /// Half days that pass.
    Pass(i64),
    /// Nodes that fire at the same time, each with its batch size, and perhaps a death after a number of steps. The last one goes on until nothing is
    /// due.
    Fire(Vec<(usize, Option<usize>)>),
    /// One batch of one node.
    Round(usize),
    /// A node reads what is due, and is slow.
    Look(usize),
    /// The same node fires.
    Strike(usize),
    /// A node reads what is due, a schedule is deleted and put again, and then the node fires.
    Anew {
        name: usize,
        plan: Plan,
    },
    Work(usize, Work),
}

/// What becomes of some jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Done,
    Dead,
    Later,
    Left,
    Suspended,
}

/// The schedule that is put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// In half days.
    pub(crate) every: i64,
    pub(crate) misfire: Misfire,
    pub(crate) overlap: Overlap,
    pub(crate) times: Option<u64>,
    /// Counted from when it is put.
    pub(crate) until: Option<i64>,
    pub(crate) payload: u8,
}

fn plan() -> impl Strategy<Value = Plan> {
    let misfire = prop_oneof![1 => Just(Misfire::Skip), 1 => Just(Misfire::Once), 2 => Just(Misfire::All)];
    let overlap = prop_oneof![Just(Overlap::Allow), Just(Overlap::Forbid)];
    let (times, until) = (prop::option::weighted(0.25, 1_u64..5), prop::option::weighted(0.2, 0_i64..10));
    (prop_oneof![Just(1_i64), Just(2), Just(4)], misfire, overlap, times, until, 0_u8..2).prop_map(
        |(every, misfire, overlap, times, until, payload)| {
            // Both together are refused.
            let overlap = if misfire == Misfire::All { Overlap::Allow } else { overlap };
            Plan { every, misfire, overlap, times, until, payload }
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    let (name, limit, node) = (0..NAMES.len(), 1_usize..12, 0_usize..2);
    let work = prop_oneof![3 => Just(Work::Done), 1 => Just(Work::Dead), 1 => Just(Work::Later), 1 => Just(Work::Left),
                    1 => Just(Work::Suspended)];
    let nodes = vec((limit.clone(), prop::option::weighted(0.6, 1_usize..20)), 1..4);
    prop_oneof![
        5 => (name.clone(), plan()).prop_map(|(name, plan)| Op::Put { name, plan }),
        1 => name.clone().prop_map(Op::Pause),
        2 => name.clone().prop_map(Op::Resume),
        1 => name.clone().prop_map(Op::RunNow),
        2 => name.clone().prop_map(Op::Delete),
        2 => (name, plan()).prop_map(|(name, plan)| Op::Anew { name, plan }),
        6 => (1_i64..10).prop_map(Op::Pass),
        5 => nodes.prop_map(Op::Fire),
        2 => limit.prop_map(Op::Round),
        3 => node.clone().prop_map(Op::Look),
        3 => node.prop_map(Op::Strike),
        4 => (1_usize..6, work).prop_map(|(count, work)| Op::Work(count, work)),
    ]
}

/// Up to `longest` operations, one after the other or at once.
pub(crate) fn history(longest: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(op(), longest / 4..=longest)
}

/// A schedule as it should be.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) plan: Plan,
    /// Its number among all schedules and all restarts of their occurrences.
    pub(crate) epoch: usize,
    /// The version read last.
    pub(crate) version: i64,
    /// The time that its occurrences count from. The first comes one interval later.
    anchor: i64,
    until: Option<i64>,
    pub(crate) paused: bool,
    /// The number of the next occurrence.
    pub(crate) next: Option<i64>,
    pub(crate) fired: u64,
    pub(crate) last_job: Option<JobId>,
}

impl Model {
    pub(crate) fn new(plan: &Plan, now: i64, epoch: usize) -> Self {
        let until = plan.until.map(|until| now + until);
        let (plan, version, last_job) = (plan.clone(), 0, None);
        let mut new = Self { plan, epoch, version, anchor: now, until, paused: false, next: None, fired: 0, last_job };
        new.next = new.after(now);
        new
    }

    /// Replaces the plan; `epoch` is used if its occurrences count from the start again. Returns whether anything changed.
    pub(crate) fn put(&mut self, plan: &Plan, now: i64, epoch: usize) -> bool {
        let old = std::mem::replace(&mut self.plan, plan.clone());
        // An end is an absolute time, and no two are put at the same time.
        let same_end = old.until.is_none() && plan.until.is_none();
        if same_end && old == *plan {
            return false;
        }
        self.until = plan.until.map(|until| now + until);
        if old.every != plan.every {
            (self.anchor, self.epoch) = (now, epoch);
        }
        if old.every != plan.every || old.times != plan.times || !same_end {
            self.next = self.after(now);
        }
        true
    }

    pub(crate) fn resume(&mut self, now: i64) {
        if std::mem::take(&mut self.paused) {
            self.next = self.after(now);
        }
    }

    fn tick(&self, n: i64) -> i64 {
        self.anchor + n * self.plan.every
    }

    fn bounded(&self, n: i64) -> Option<i64> {
        let left = self.plan.times.is_none_or(|times| self.fired < times);
        (left && self.until.is_none_or(|until| self.tick(n) <= until)).then_some(n)
    }

    /// Returns the last occurrence up to this time. Each step takes a little time, so an occurrence at this time is past.
    fn last(&self, now: i64) -> i64 {
        (now - self.anchor).div_euclid(self.plan.every)
    }

    fn after(&self, now: i64) -> Option<i64> {
        self.bounded((self.last(now) + 1).max(1))
    }

    pub(crate) fn is_due(&self, now: i64) -> bool {
        !self.paused && self.next.is_some_and(|next| self.tick(next) <= now)
    }

    /// Fires what is due at `now`, or a first part of it. `sent` are the occurrences that have sent jobs, `alive`: whether the previous job is not
    /// over.
    ///
    /// # Errors
    /// If other occurrences should have sent jobs.
    pub(crate) fn fire(&mut self, now: i64, sent: &[(i64, JobId)], alive: bool) -> Result<(), String> {
        let Some(first) = self.next.filter(|_| self.is_due(now)) else {
            return Err(format!("it was not due: {self:?}"));
        };
        let numbers: Vec<i64> = sent.iter().map(|(n, _)| *n).collect();
        let last = self.last(self.until.map_or(now, |until| until.min(now)).max(self.tick(first)));
        let left = self.plan.times.map_or(i64::MAX, |times| times.saturating_sub(self.fired) as i64);
        let (all, part) = match self.plan.misfire {
            // None is lost, but they may come in parts.
            Misfire::All => ((first..=last).take(left as usize).collect(), true),
            Misfire::Once => (vec![last], false),
            Misfire::Skip if self.tick(last) == now => (vec![last], false),
            Misfire::Skip => (Vec::new(), false),
            other => return Err(format!("a policy that the model does not know: {other}")),
        };
        let all = if alive && self.plan.overlap == Overlap::Forbid { Vec::new() } else { all };
        let fits = if part { !numbers.is_empty() && all.starts_with(&numbers) } else { numbers == all };
        if !fits {
            return Err(format!("occurrences {numbers:?} sent jobs where {all:?} were due (alive: {alive}): {self:?}"));
        }
        self.fired += numbers.len() as u64;
        self.last_job = sent.last().map(|(_, id)| *id).or(self.last_job);
        self.next = match numbers.last() {
            Some(last) if part => self.bounded(last + 1),
            _ => self.after(now),
        };
        Ok(())
    }
}
