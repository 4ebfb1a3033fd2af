//! What an executor does with a broker.
//!
//! ```text
//!  PREFIX.q.QUEUE   ──▶ deliveries   claim by id ─▶ the same workers as for all jobs
//!  PREFIX.submit    ──▶ intake       store ─▶ a job like all others
//!  PREFIX.x.QUEUE   ◀── external     jobs handed out, each with a lease
//!  PREFIX.reply     ──▶ answers      done, failed, extend
//!  PREFIX.event …   ◀── relay        events and replies, removed once confirmed
//! ```
//!
//! No job needs any of it to run: while the broker is not up, the dispatchers claim everything from the table, including rows hidden for a
//! delivery.

mod answers;
mod batch_sizer;
mod bisect;
mod deliveries;
mod delivery_buffer;
mod direct;
mod external;
mod full_queues;
mod intake;
mod intake_rate;
mod isolating_publisher;
mod rejection;
mod relay;
mod report_key;

use std::sync::{Arc, Weak};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::external::ExternalQueue;
use self::report_key::CachedReportKey;
use super::node_session::{NodeSession, again};
use crate::broker::{Broker, BrokerMode};
use crate::error::Result;
use crate::job::{EVENT_QUEUE, NodeId, REPLY_QUEUE};
use crate::message::local::LocalExecutor;
use crate::store::{Hint, Leases, Store};

/// The most messages taken from a queue of the broker at a time, and the most jobs given to it.
const BATCH: usize = 500;

/// Returns the table's queues whose jobs are sent to the broker and not run here.
pub(super) fn outbound(external: &[ExternalQueue]) -> impl Iterator<Item = String> {
    [EVENT_QUEUE, REPLY_QUEUE].into_iter().chain(external.iter().map(ExternalQueue::name)).map(str::to_owned)
}

/// Starts all tasks that take work from the broker or give it some, until the node stops claiming.
pub(super) fn start<S: Store>(
    node: &Arc<NodeSession<S>>,
    broker: &Arc<Broker>,
    external: &[ExternalQueue],
    tasks: &TaskTracker,
) {
    let stop = &node.stop_claiming;
    // These tasks claim.
    for queue in node.queues.values() {
        let run = deliveries::run(node.clone(), broker.clone(), queue.clone());
        tasks.spawn(node.watched("deliveries", run));
    }
    for queue in [EVENT_QUEUE, REPLY_QUEUE] {
        tasks.spawn(node.watched("the relay", relay::run(node.clone(), broker.clone(), queue)));
    }
    // These tasks take what external producers send, or give jobs to external workers. After a panic the broker delivers their messages
    // again, or the leases of their jobs end.
    if node.messages.shared.intake {
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

/// Makes a node follow the broker's mode: its dispatchers scan at once, and its row in the database shows the mode.
pub(super) async fn follow(
    broker: Arc<Broker>,
    store: Arc<dyn Leases>,
    node: NodeId,
    executor: Weak<dyn LocalExecutor>,
    quit: CancellationToken,
) {
    let mut changes = broker.changes();
    // The task must not keep the broker: its connections end when the last user drops it.
    drop(broker);
    let follow = async {
        loop {
            let mode = word(&changes.borrow_and_update());
            // Rows hidden for deliveries that will not come are claimed now, and rows that waited for the broker go out.
            if let Some(executor) = executor.upgrade() {
                executor.hint(&Hint::Any);
            }
            if let Err(error) = store.report_broker(node, Some(mode)).await {
                tracing::debug!(%error, "the node's row does not show how it stands with the broker");
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = quit.cancelled() => {}
        () = follow => {}
    }
}

/// Returns the mode as a word, for the node's row.
fn word(mode: &BrokerMode) -> &'static str {
    match mode {
        BrokerMode::Up(_) => "up",
        BrokerMode::Blocked(_) => "blocked",
        BrokerMode::Down { .. } => "down",
    }
}

/// Waits until the broker is up.
async fn up(broker: &Broker) {
    let mut changes = broker.changes();
    // An error means that the broker is gone for good, and this executor is about to end too.
    if changes.wait_for(BrokerMode::is_up).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Checks that the database accepts what comes from the broker: a small write (the node's row shows the broker's mode, again), and the
/// locks of larger ones.
async fn alive<S: Store>(node: &NodeSession<S>, broker: &Broker) -> Result<()> {
    loop {
        let mode = word(&broker.mode());
        node.store.report_broker(node.id, Some(mode)).await?;
        // A mode that changed meanwhile must not be overwritten with the old one.
        if word(&broker.mode()) == mode {
            return node.store.takes_writes().await;
        }
    }
}
