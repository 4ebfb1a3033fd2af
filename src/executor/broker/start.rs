//! Starts the tasks that talk to the broker.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::broker::Broker;
use crate::executor::broker::report_key::CachedReportKey;
use crate::executor::broker::{answers, deliveries, external, intake, relay};
use crate::executor::handler::external_queue::ExternalQueue;
use crate::executor::node::Node;
use crate::executor::node::tasks::{again, watched};
use crate::job::{EVENT_QUEUE, REPLY_QUEUE};

/// Starts all tasks that take work from the broker or give it some, until the node stops claiming.
pub(crate) fn start(node: &Arc<Node>, broker: &Arc<Broker>, external: &[ExternalQueue], tasks: &TaskTracker) {
    let stop = &node.stop_claiming;
    // These tasks claim.
    for queue in node.queues.values() {
        let run = deliveries::run(node.clone(), broker.clone(), queue.clone());
        tasks.spawn(watched("deliveries", &node.refused, run));
    }
    for queue in [EVENT_QUEUE, REPLY_QUEUE] {
        tasks.spawn(watched("the relay", &node.refused, relay::run(node.clone(), broker.clone(), queue)));
    }
    // These tasks take what external producers send, or give jobs to external workers. After a panic the broker delivers their messages
    // again, or the leases of their jobs end.
    if node.intake {
        let (node, broker) = (node.clone(), broker.clone());
        let run = move |_| Some(intake::run(node.clone(), broker.clone()));
        tasks.spawn(again("intake", stop.clone(), run));
    }
    let key = Arc::new(CachedReportKey::default());
    for queue in external {
        let (node, broker, queue, key) = (node.clone(), broker.clone(), queue.clone(), key.clone());
        let run = move |_| Some(external::run(node.clone(), broker.clone(), queue.clone(), key.clone()));
        tasks.spawn(again("hand-outs", stop.clone(), run));
    }
    if !external.is_empty() {
        let (node, broker) = (node.clone(), broker.clone());
        let run = move |_| Some(answers::run(node.clone(), broker.clone(), key.clone()));
        tasks.spawn(again("reports", stop.clone(), run));
    }
}
