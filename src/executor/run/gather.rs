//! Lets claimed jobs wait for others of their kind and queue.

use std::sync::Arc;

use crate::executor::handler::batch::{BatchOptions, BatchPlan};
use crate::executor::handler::registry::KindHandler;
use crate::executor::kinds::kind::Kind;
use crate::executor::node::Node;
use crate::executor::node::alone;
use crate::executor::node::gathering::{Added, Member};
use crate::executor::run::batch;
use crate::store::Store;

/// Returns how many jobs make a batch. A larger batch could never fill, and would always wait in vain.
pub(crate) fn size(node: &Node, kind: &Kind, batch: BatchOptions, queue: &str) -> usize {
    let most = [node.queues.get(queue).map(|queue| queue.concurrency()), kind.options.concurrency];
    most.into_iter().flatten().fold(batch.size, usize::min)
}

/// Adds a job to the batch being formed, or starts one.
pub(crate) fn gather<S: Store>(
    node: &Arc<Node>,
    handler: &Arc<KindHandler<S>>,
    plan: &Arc<BatchPlan<S>>,
    member: Member,
) {
    let size = size(node, &handler.kind, plan.options, &member.job.queue);
    let key = (Arc::as_ptr(handler).addr(), member.job.queue.clone());
    let Added::First(number, mut ready) = node.gathering.add(&key, member, size) else { return };
    let (node, handler, plan, wait) = (node.clone(), handler.clone(), plan.clone(), plan.options.wait);
    node.workers.clone().spawn(async move {
        let complete = tokio::select! {
            biased;
            members = &mut ready => members.ok(),
            () = tokio::time::sleep(wait) => None,
            // No more jobs will come, and a job that is to run alone waits for these.
            () = alone::closed() => None,
            () = node.stop_claiming.cancelled() => None,
        };
        let members = match complete.or_else(|| node.gathering.take(&key, number)) {
            Some(members) => members,
            None => match ready.await {
                Ok(members) => members,
                Err(_) => return,
            },
        };
        batch::run(node, handler, plan, members).await;
    });
}
