//! Runs the jobs that were taken of a group, one after the other.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::completer::Report;
use super::hand_on::{Turn, may_go_on};
use super::incarnation::Incarnation;
use super::registry::Slots;
use super::worker;
use crate::job::{Fence, Job};
use crate::store::{Settlement, Store, Verdict};

/// How long what has ended waits to be recorded with those behind it.
const TOGETHER: Duration = Duration::from_millis(5);
/// How long jobs may stand in line: then those that have not begun are given back.
const IN_LINE: Duration = Duration::from_millis(100);

/// To the recorded outcome of each, and to the end of their turn. None of them begins before the one in front has ended.
pub(super) async fn run<S: Store>(node: Arc<Incarnation<S>>, jobs: Vec<Job>, turn: Turn) {
    let mut turn = turn;
    if let Some(last) = jobs.last() {
        turn.group.taken(last);
    }
    let taken = jobs.len();
    let mut line =
        Line { node: &node, slots: turn.slots.clone(), rest: jobs.into_iter(), ended: Vec::new(), gave_back: false };
    let began = Instant::now();
    let mut ran = 0;
    while let Some(job) = line.rest.next() {
        if began.elapsed() >= IN_LINE || !may_start(&node, &line.slots) {
            line.give_back(Some(job)).await;
            break;
        }
        ran += 1;
        if !line.attempt(job, began).await {
            return turn.keep();
        }
    }
    // A thread may run on that was given up.
    if !line.slots.attempt_ended(&node.cancel).await {
        for fence in line.ended {
            node.reports.send(Report::Done(fence)).await;
        }
        return turn.keep();
    }
    if may_go_on(&node, &line.slots) {
        turn.pace(taken, ran, began.elapsed());
    } else {
        turn.end();
    }
    if line.gave_back {
        // They are the first of their group again. Who comes next is not to be taken from behind them, nor while they are still owned.
        turn.group.from_the_front();
        if !node.reports.recorded().await {
            return turn.keep();
        }
    }
    let report = Report::InTurn(line.ended, turn);
    // The place goes with the report.
    drop(line.slots);
    node.reports.send(report).await;
}

/// Nothing of the one before runs on, and nobody told the node to stop. A turn that is over ends with the line.
fn may_start<S: Store>(node: &Incarnation<S>, slots: &Slots) -> bool {
    !node.stop_claiming.is_cancelled() && slots.has_time(Duration::MAX)
}

struct Line<'a, S: Store> {
    node: &'a Arc<Incarnation<S>>,
    slots: Arc<Slots>,
    rest: std::vec::IntoIter<Job>,
    /// Done, and not recorded yet.
    ended: Vec<Fence>,
    /// Some were given back that had not begun.
    gave_back: bool,
}

impl<S: Store> Line<'_, S> {
    /// `false`: what became of it will not be known here.
    async fn attempt(&mut self, job: Job, began: Instant) -> bool {
        let node = self.node;
        let slots = self.slots.clone();
        let mut attempt = pin!(worker::attempt(node, job, &slots));
        let report = loop {
            // Neither who has ended nor who waits is kept by a long one in front.
            let someone = !self.ended.is_empty() || !self.rest.as_slice().is_empty();
            tokio::select! {
                biased;
                report = &mut attempt => break report,
                () = tokio::time::sleep(TOGETHER), if someone => {
                    self.ended.retain(|fence| !node.reports.try_send(Report::Done(*fence)));
                    if began.elapsed() >= IN_LINE {
                        self.try_give_back();
                    }
                }
            }
        };
        match report {
            Some(Report::Done(fence)) => self.ended.push(fence),
            // Its commit may be under way though nothing was heard of it. When this is recorded that is decided.
            Some(report) => return node.reports.record(report).await,
            None => {}
        }
        true
    }

    /// Those that have not begun wait again, at no attempt.
    async fn give_back(&mut self, first: Option<Job>) {
        self.gave_back = true;
        for job in first.into_iter().chain(self.rest.by_ref()) {
            self.node.reports.send(released(&job)).await;
        }
    }

    /// The same without a wait: the attempt that runs is not to stand still meanwhile.
    fn try_give_back(&mut self) {
        while let Some(job) = self.rest.as_slice().first() {
            if !self.node.reports.try_send(released(job)) {
                return;
            }
            self.gave_back = true;
            self.rest.next();
        }
    }
}

fn released(job: &Job) -> Report {
    Report::Settled(Settlement::new(job.fence(), Verdict::Release))
}
