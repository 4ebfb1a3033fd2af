//! The program's handlers, as the node sees them: they start jobs.

use std::collections::HashMap;
use std::sync::Arc;

use crate::executor::groups::runner::{self, Attempts};
use crate::executor::handler::registry::KindHandler;
use crate::executor::metrics::releases::ReleaseReason;
use crate::executor::node::completion::Completion;
use crate::executor::node::gathering::Member;
use crate::executor::node::group_run::GroupRun;
use crate::executor::node::slots::Slots;
use crate::executor::node::{Node, Work};
use crate::executor::run::gather::gather;
use crate::executor::run::worker;
use crate::job::Job;
use crate::store::Store;

/// What runs the jobs of each kind, by each of its names.
pub(crate) struct Handlers<S: Store>(pub(crate) HashMap<String, Arc<KindHandler<S>>>);

impl<S: Store> Default for Handlers<S> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<S: Store> Work for Handlers<S> {
    fn start(&self, node: &Arc<Node>, job: Job, slots: Arc<Slots>) {
        let Some(handler) = self.0.get(&job.kind).cloned() else {
            return unknown(node, &job);
        };
        if job.attempt > job.max_attempts {
            node.workers.spawn(worker::dead_letter(node.clone(), job, slots));
            return;
        }
        if handler.kind.breaker.is_open() {
            // It was claimed when the breaker opened.
            node.workers.spawn(worker::give_back(node.clone(), job, slots));
            return;
        }
        if let Some(plan) = &handler.batch {
            gather(node, &handler, plan, Member::new(job, slots));
            return;
        }
        node.workers.spawn(worker::run(node.clone(), handler, job, slots));
    }

    fn start_group_run(self: Arc<Self>, node: Arc<Node>, jobs: Vec<Job>, group_run: GroupRun) {
        node.workers.clone().spawn(runner::run(node, self, jobs, group_run));
    }
}

impl<S: Store> Attempts for Handlers<S> {
    async fn attempt(&self, node: &Arc<Node>, job: Job, slots: &Arc<Slots>) -> Option<Completion> {
        match self.0.get(&job.kind).cloned() {
            Some(handler) => worker::attempt(node, handler, job, slots).await,
            // Can't happen: claims ask for registered kinds only.
            None => Some(node.give_back(job.fence(), ReleaseReason::LeftAlone)),
        }
    }
}

/// Gives the row back. Can't happen: claims ask for registered kinds only.
fn unknown(node: &Node, job: &Job) {
    node.in_flight.remove(std::iter::once(job.fence()));
    node.in_flight.suspect();
}
