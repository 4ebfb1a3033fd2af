//! Runs the jobs claimed of a group, one after the other.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::executor::groups::follow::may_go_on;
use crate::executor::metrics::releases::ReleaseReason;
use crate::executor::node::Node;
use crate::executor::node::completion::Completion;
use crate::executor::node::group_run::GroupRun;
use crate::executor::node::slots::Slots;
use crate::job::{Fence, Job, JobId};
use crate::store::Verdict;

/// How long a finished job waits to be recorded together with those after it.
const RECORD_DELAY: Duration = Duration::from_millis(5);
/// How long jobs may wait for the ones before them. After that, those that have not begun are given back.
const MAX_RUN: Duration = Duration::from_millis(100);

/// Runs single jobs of a group.
pub(crate) trait Attempts: Send + Sync {
    /// Runs a job, up to what is to be recorded of it; `None` if that has been done.
    fn attempt(
        &self,
        node: &Arc<Node>,
        job: Job,
        slots: &Arc<Slots>,
    ) -> impl Future<Output = Option<Completion>> + Send;
}

/// Runs the jobs until each outcome is recorded and the run ends. No job begins before the one before it has ended.
pub(crate) async fn run(node: Arc<Node>, work: Arc<impl Attempts>, jobs: Vec<Job>, group_run: GroupRun) {
    let mut group_run = group_run;
    if let Some(last) = jobs.last() {
        group_run.group.taken(last);
    }
    let taken = jobs.len();
    let largest = jobs.iter().map(|job| job.payload.as_bytes().len()).max().unwrap_or_default();
    let mut runner = GroupRunner {
        node: &node,
        slots: group_run.slots.clone(),
        rest: jobs.into_iter(),
        ended: Vec::new(),
        gave_back: Vec::new(),
    };
    let began = Instant::now();
    let mut ran = 0;
    while let Some(job) = runner.rest.next() {
        if began.elapsed() >= MAX_RUN || !may_start(&node, &runner.slots) || is_left_alone(&node, &job) {
            runner.give_back(Some(job)).await;
            break;
        }
        ran += 1;
        if !runner.attempt(&*work, job, began).await {
            return runner.leave(group_run).await;
        }
    }
    // The thread of an abandoned handler may still run.
    if !runner.slots.attempt_ended(&node.cancel).await {
        return runner.leave(group_run).await;
    }
    if may_go_on(&node, &runner.slots) {
        group_run.pace(taken, ran, began.elapsed(), largest);
    } else {
        group_run.end();
    }
    if !runner.gave_back.is_empty() {
        // The jobs given back are the first of their group again. The next claim must not skip them, nor come while this node still owns
        // them.
        group_run.group.from_the_start();
        if !node.completions.recorded(runner.gave_back).await {
            return group_run.keep();
        }
    }
    let completion = Completion::DoneInGroup(runner.ended, group_run);
    // The slot goes with the completion.
    drop(runner.slots);
    node.completions.send(completion).await;
}

/// Returns whether the next job may begin: the one before has really ended, and the node is not stopping. The time limit in the slot does
/// not count here: it ends with the run.
fn may_start(node: &Node, slots: &Slots) -> bool {
    !node.stop_claiming.is_cancelled() && slots.has_time(Duration::MAX)
}

/// Returns whether this node can't run the job's kind at the moment.
fn is_left_alone(node: &Node, job: &Job) -> bool {
    node.breakers.any_open() && node.kinds.get(&job.kind).is_some_and(|kind| kind.breaker.is_open())
}

struct GroupRunner<'a> {
    node: &'a Arc<Node>,
    slots: Arc<Slots>,
    rest: std::vec::IntoIter<Job>,
    /// Claims of jobs that are done and not recorded yet.
    ended: Vec<Fence>,
    /// Jobs that had not begun and were given back.
    gave_back: Vec<JobId>,
}

impl GroupRunner<'_> {
    /// Runs one job. Returns `false` if its outcome can't be known here.
    async fn attempt(&mut self, work: &impl Attempts, job: Job, began: Instant) -> bool {
        let node = self.node;
        let slots = self.slots.clone();
        let mut attempt = pin!(work.attempt(node, job, &slots));
        let completion = loop {
            // A long job must delay neither finished jobs nor waiting ones.
            let someone = !self.ended.is_empty() || !self.rest.as_slice().is_empty();
            tokio::select! {
                biased;
                completion = &mut attempt => break completion,
                () = tokio::time::sleep(RECORD_DELAY), if someone => {
                    self.ended.retain(|fence| !node.completions.try_send(Completion::Done(*fence)));
                    if began.elapsed() >= MAX_RUN {
                        self.try_give_back();
                    }
                }
            }
        };
        match completion {
            Some(Completion::Done(fence)) => self.ended.push(fence),
            // Its commit may be under way although no answer came. Once this outcome is recorded, that is decided.
            Some(completion) => {
                // Such a job is the first of its group again, too.
                if let Completion::Settled(settled) = &completion
                    && settled.verdict == Verdict::Release
                {
                    self.gave_back.push(settled.fence.id);
                }
                return node.completions.record(completion).await;
            }
            None => {}
        }
        true
    }

    /// Ends a run whose group stays with this node for now. The jobs that are done are done nevertheless.
    async fn leave(self, group_run: GroupRun) {
        for fence in self.ended {
            self.node.completions.send(Completion::Done(fence)).await;
        }
        group_run.keep();
    }

    /// Makes the jobs that have not begun wait again, without costing an attempt.
    async fn give_back(&mut self, first: Option<Job>) {
        for job in first.into_iter().chain(self.rest.by_ref()) {
            self.gave_back.push(job.id);
            self.node.completions.send(self.node.give_back(job.fence(), ReleaseReason::NotBegun)).await;
        }
    }

    /// Does the same without waiting, so that the running attempt does not stand still.
    fn try_give_back(&mut self) {
        while let Some(job) = self.rest.as_slice().first() {
            if !self.node.completions.try_send(Completion::released(job.fence())) {
                return;
            }
            self.node.counters.releases.add_many(ReleaseReason::NotBegun.as_str(), 1);
            self.gave_back.push(job.id);
            self.rest.next();
        }
    }
}
