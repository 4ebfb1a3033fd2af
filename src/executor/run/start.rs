//! Starts jobs that this node owns.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use crate::executor::handler::registry::Kind;
use crate::executor::node::gathering::Member;
use crate::executor::node::limits::Running;
use crate::executor::node::slots::Slots;
use crate::executor::run::gather::gather;
use crate::executor::run::worker;
use crate::executor::session::node_session::NodeSession;
use crate::job::Job;
use crate::store::Store;

/// Starts a job that this node owns.
pub(crate) fn start<S: Store>(
    node: &Arc<NodeSession<S>>,
    job: Job,
    slot: OwnedSemaphorePermit,
    kind_slot: Option<OwnedSemaphorePermit>,
    running: Option<Running>,
) {
    let Some(kind) = node.registry.get(&job.kind).cloned() else {
        return unknown(node, &job);
    };
    start_as(node, kind, job, Slots::new(slot, kind_slot, running));
}

/// Gives the row back. Can't happen: claims ask for registered kinds only.
fn unknown<S: Store>(node: &NodeSession<S>, job: &Job) {
    node.in_flight.remove(std::iter::once(job.fence()));
    node.in_flight.suspect();
}

fn start_as<S: Store>(node: &Arc<NodeSession<S>>, kind: Arc<Kind<S>>, job: Job, slots: Arc<Slots>) {
    if job.attempt > job.max_attempts {
        node.workers.spawn(worker::dead_letter(node.clone(), job, slots));
        return;
    }
    if kind.breaker.is_open() {
        // It was claimed when the breaker opened.
        node.workers.spawn(worker::give_back(node.clone(), job, slots));
        return;
    }
    if let Some(plan) = &kind.batch {
        gather(node, &kind, plan, Member::new(job, slots));
        return;
    }
    node.workers.spawn(worker::run(node.clone(), kind, job, slots));
}
