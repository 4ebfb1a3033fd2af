//! One session of an executor under one node id: from registration until it stops or loses its lease.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::Result;
#[cfg(feature = "rabbitmq")]
use crate::executor::broker;
use crate::executor::dispatch::dispatcher::Dispatcher;
use crate::executor::dispatch::suspects;
use crate::executor::kinds::kind::chainable_kinds;
use crate::executor::lifecycle::drain::{Drain, SessionEnd};
use crate::executor::lifecycle::heartbeat::{Granted, Heartbeat, Liveness, usable};
use crate::executor::lifecycle::helpers;
use crate::executor::lifecycle::settings::Settings;
use crate::executor::metrics::releases::ReleaseReason;
use crate::executor::metrics::stats::Counters;
use crate::executor::node::alone;
use crate::executor::node::cancellations::LET_GO;
use crate::executor::node::in_flight::InFlight;
use crate::executor::node::tasks::watched;
use crate::executor::node::unrecorded::Unrecorded;
use crate::executor::outcome::completer::Completer;
use crate::job::NodeId;
use crate::store::{Enqueue, Hint, Nodes};

/// How long a node with nothing in flight waits for the embedded database to record that it leaves.
const IDLE: Duration = Duration::from_secs(1);

/// Runs a registered node until `stop` is cancelled or its lease is lost. `started` gets the node's jobs in flight. Returns how it ended,
/// and the outcomes that are known and not recorded, which are to be recorded before the node is retired.
///
/// # Errors
/// [`Replaced`](crate::ErrorKind::Replaced): the database is gone, so no other session can go on either.
pub(crate) async fn run(
    settings: &Settings,
    (id, since): (NodeId, Instant),
    stop: &CancellationToken,
    started: impl FnOnce(Arc<InFlight>),
) -> Result<(SessionEnd, Vec<Unrecorded>)> {
    let store = settings.store.clone();
    let (completions, inbox) = Completer::channel();
    let node = settings.node(id, completions, chainable_kinds(&settings.kinds), stop);
    // Asked at the start and not at the first heartbeat: by then it may be another server.
    let asked = tokio::time::timeout(settings.node.lease / 10, store.identity()).await;
    let server = asked.ok().and_then(Result::ok).flatten();
    let liveness = Liveness::of(tokio::runtime::Handle::current(), settings.stall_timeout);
    let lease = settings.node.lease;
    settings.vitals.begin(id, node.queues.values().cloned().collect(), since, usable(lease));
    let granted = Granted { node: id, lease, since, server };
    let (doubts, vitals) = (node.in_flight.clone(), settings.vitals.clone());
    let mut heartbeat =
        Heartbeat::start(store.clone(), granted, doubts, vitals, liveness).inspect_err(|_| settings.vitals.end())?;
    started(node.in_flight.clone());
    let proven = tokio::select! {
        proven = heartbeat.proven() => proven,
        () = stop.cancelled() => false,
    };
    if !proven {
        node.stop_claiming.cancel();
    }

    let finish = CancellationToken::new();
    let completer = Completer {
        store: store.clone(),
        node: id,
        in_flight: node.in_flight.clone(),
        counters: node.counters.clone(),
        wakeup: node.wakeup.clone(),
        next: Arc::downgrade(&node),
        finish: finish.clone(),
        lost: heartbeat.lost().clone(),
    };
    let completing = tokio::spawn(watched("the completer", &node.refused, completer.run(inbox)));
    let dispatchers = TaskTracker::new();
    for queue in node.queues.values() {
        dispatchers.spawn(watched("a dispatcher", &node.refused, Dispatcher::new(node.clone(), queue.clone()).run()));
    }
    dispatchers.spawn(watched("suspects", &node.refused, suspects::run(node.clone())));
    #[cfg(feature = "rabbitmq")]
    if let Some(broker) = &node.broker {
        broker::start::start(&node, broker, &settings.external, &dispatchers);
    }
    dispatchers.close();
    let quit = CancellationToken::new();
    let helpers = helpers::start(&node, settings, &quit);
    if proven {
        settings.vitals.opened();
    }

    let end = tokio::select! {
        () = heartbeat.lost().cancelled() => SessionEnd::LeaseLost,
        () = node.refused.cancelled() => {
            // Tasks that wait for the heartbeat's verdict stop waiting.
            heartbeat.lost().cancel();
            SessionEnd::LeaseLost
        }
        () = stop.cancelled() => SessionEnd::Stopped,
    };
    node.stop_claiming.cancel();
    settings.vitals.end();
    let drain = Drain {
        dispatchers: &dispatchers,
        workers: &node.workers,
        cancellations: &node.cancellations,
        lost: heartbeat.lost(),
    };
    let end = drain.run(end, settings.grace()).await;
    alone::unregister(&node.in_flight.busy());
    quit.cancel();
    let in_flight = node.in_flight.clone();
    // Outcomes already handed in are recorded even if a handler that blocks its thread never ends.
    finish.cancel();
    let abort = completing.abort_handle();
    let completed = tokio::time::timeout(settings.call_timeout * 2, completing).await;
    abort.abort();
    let (completed, left) = (completed.is_ok(), completed.ok().and_then(Result::ok).unwrap_or_default());
    // Outcomes are left only where the lease was lost, by now during the last step of a stop. A node that retires gives their jobs back.
    let end = if left.is_empty() { end } else { SessionEnd::LeaseLost };
    let counted = node.limits.any();
    drop(node);
    let _ = tokio::time::timeout(LET_GO, helpers.wait()).await;
    // A node with nothing in flight has no known job to give back. On the embedded store no claim can be under way either, because it
    // has one writer. So such a node does not wait long for another program's transaction. On a server, a claim whose answer was lost
    // may have taken jobs. They are released without costing an attempt, and that may take a while.
    let idle = completed && in_flight.len() == 0 && store.is_single_writer();
    let patience = if idle { IDLE } else { Duration::MAX };
    heartbeat.leave();
    if end == SessionEnd::Stopped
        && tokio::time::timeout(
            patience,
            retire(&*store, &*store, id, (&in_flight, &settings.counters), completed, counted),
        )
        .await
        .is_err()
    {
        tracing::warn!(node = %id, "left without waiting for the database to record it; other nodes will record it when the lease of this idle node \
                                    ends");
    }
    let hopeless = heartbeat.hopeless();
    let _ = tokio::time::timeout(patience, heartbeat.stop()).await;
    hopeless.map_or(Ok((end, left)), Err)
}

/// Leaves in good order: ends the lease and releases all jobs the node still owns. Only the database knows which these are, because a claim
/// whose answer was lost may have been under way.
async fn retire(
    nodes: &dyn Nodes,
    hints: &dyn Enqueue,
    id: NodeId,
    (in_flight, counters): (&InFlight, &Counters),
    clean: bool,
    counted: bool,
) {
    let leave = async {
        let released = nodes.retire_node(id).await?;
        // Handlers that did not stop, or outcomes that could not be recorded.
        let unfinished = !clean || in_flight.len() > 0;
        counters.releases.add_many(ReleaseReason::Stopping.as_str(), released);
        if released > 0 && unfinished {
            tracing::warn!(released, "gave back jobs that were not finished");
        }
        // What handlers of cancelled jobs held is free now, too, and so is its part of the limits.
        let freed = if released > 0 || unfinished { Some(Hint::Any) } else { counted.then_some(Hint::Admission) };
        if let Some(freed) = freed
            && let Err(error) = hints.notify(&[freed]).await
        {
            tracing::debug!(%error, "executors were not woken; they will find the jobs when they poll");
        }
        Ok::<_, crate::Error>(())
    };
    if let Err(error) = leave.await {
        tracing::warn!(%error, node = %id, "the node could not leave cleanly; other nodes release its jobs when its lease ends");
    }
}
