//! What an executor does with a broker.
//!
//! ```text
//!  PREFIX.q.QUEUE   ──▶ deliveries   claim by id ─▶ the same workers as everything else
//!  PREFIX.submit    ──▶ intake       store ─▶ a job like all others
//!  PREFIX.x.QUEUE   ◀── external     jobs handed out, each with a lease
//!  PREFIX.reply     ──▶ answers      done, failed, extend
//!  PREFIX.event …   ◀── relay        events and replies, removed once confirmed
//! ```
//!
//! None of it is needed for a job to run: while the broker is not up, the dispatchers claim everything from the table, rows
//! that are held for a delivery too.

mod answers;
mod deliveries;
mod direct;
mod external;
mod hands;
mod intake;
mod key;
mod pace;
mod parts;
mod portion;
mod refuse;
mod relay;
mod room;
mod singly;

use std::sync::{Arc, Weak};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::external::ExternalQueue;
use self::key::Key;
use super::incarnation::{Incarnation, again};
use crate::broker::{Broker, BrokerMode};
use crate::error::Result;
use crate::job::{EVENT_QUEUE, NodeId, REPLY_QUEUE};
use crate::message::local::LocalExecutor;
use crate::store::{Hint, JobStore, Store};

/// Messages taken from a queue of the broker at a time, and jobs given to it.
const BATCH: usize = 500;

/// The queues of the table that are not run here but sent to the broker.
pub(super) fn outbound(external: &[ExternalQueue]) -> impl Iterator<Item = String> {
    [EVENT_QUEUE, REPLY_QUEUE].into_iter().chain(external.iter().map(ExternalQueue::name)).map(str::to_owned)
}

/// Starts everything that takes work from the broker or gives it some, until the node stops claiming.
pub(super) fn start<S: Store>(
    node: &Arc<Incarnation<S>>,
    broker: &Arc<Broker>,
    external: &[ExternalQueue],
    tasks: &TaskTracker,
) {
    let stop = &node.stop_claiming;
    // These claim.
    for queue in node.queues.values() {
        let run = deliveries::run(node.clone(), broker.clone(), queue.clone());
        tasks.spawn(node.watched("deliveries", run));
    }
    for queue in [EVENT_QUEUE, REPLY_QUEUE] {
        tasks.spawn(node.watched("the relay", relay::run(node.clone(), broker.clone(), queue)));
    }
    // These take what strangers send, or give jobs to them. What they had in hand the broker delivers again, or its lease ends.
    if node.messages.shared.intake {
        let (node, broker) = (node.clone(), broker.clone());
        let run = move || Some(intake::run(node.clone(), broker.clone()));
        tasks.spawn(again("intake", stop.clone(), run));
    }
    let key = Arc::new(Key::default());
    for queue in external {
        let (node, broker, queue, key) = (node.clone(), broker.clone(), queue.clone(), key.clone());
        let run = move || Some(external::run(node.clone(), broker.clone(), queue.clone(), key.clone()));
        tasks.spawn(again("hand-outs", stop.clone(), run));
    }
    if !external.is_empty() {
        let (node, broker) = (node.clone(), broker.clone());
        let run = move || Some(answers::run(node.clone(), broker.clone(), key.clone()));
        tasks.spawn(again("reports", stop.clone(), run));
    }
}

/// Makes a node follow the broker's mode: its dispatchers look at once, and its row tells how it stands.
pub(super) async fn follow(
    broker: Arc<Broker>,
    store: Arc<dyn JobStore>,
    node: NodeId,
    executor: Weak<dyn LocalExecutor>,
    quit: CancellationToken,
) {
    let mut changes = broker.changes();
    // The task does not keep the broker: its connections end with the last who uses them.
    drop(broker);
    let follow = async {
        loop {
            let mode = word(&changes.borrow_and_update());
            // What is held for deliveries that will not come is claimed now, and what waited for the broker goes out.
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

/// The mode in a word, for the node's row.
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
    // An error means that the broker is gone for good, and so is this executor, in a moment.
    if changes.wait_for(BrokerMode::is_up).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Whether the database takes what comes from the broker: a small write (the node's row tells how it stands with the broker, again), and the
/// locks of larger ones.
async fn alive<S: Store>(node: &Incarnation<S>, broker: &Broker) -> Result<()> {
    loop {
        let mode = word(&broker.mode());
        node.store.report_broker(node.id, Some(mode)).await?;
        // What has changed meanwhile is not to be overwritten with what was.
        if word(&broker.mode()) == mode {
            return node.store.takes_writes().await;
        }
    }
}
