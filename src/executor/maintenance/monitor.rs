//! The lock monitor: releases the jobs of dead nodes, and jobs that external workers did not report in time.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::jitter;
use crate::error::warn_of;
use crate::executor::maintenance::observation::Observation;
use crate::executor::maintenance::pauses::FALLBACK_POLLS;
use crate::job::NodeId;
use crate::message::WakeUp;
use crate::store::{Hint, Recovery, Released};

/// The most jobs released in one transaction.
const BATCH: usize = 500;
/// How often the whole table is searched for unknown owners. Only deleting a node's row by hand leaves such owners behind.
const SWEEP: Duration = Duration::from_secs(600);

/// How much silence and how many deaths the monitor tolerates.
#[derive(Clone, Copy)]
pub(crate) struct MonitorConfig {
    pub(crate) lease: Duration,
    /// See [`Recovery::release_lost`].
    pub(crate) quarantine: Option<NonZeroU32>,
}

/// Declares nodes dead that were silent for a lease, and releases their jobs. Every node runs one. They need no leader, because the
/// database lets only one of them have a row. Unlike jBPM's it can't be forgotten: it starts with the executor.
///
/// `late` is notified when an external worker has let a lease run out.
pub(crate) async fn run(
    store: Arc<dyn Recovery>,
    me: NodeId,
    wakeup: Arc<WakeUp>,
    patience: MonitorConfig,
    late: Arc<Notify>,
    stop: CancellationToken,
) {
    // Not at the start, when there are jobs to claim: it walks the whole table.
    let mut next_sweep = Instant::now() + jitter(SWEEP / 10);
    let mut next_look = Instant::now();
    let mut observation = Observation::by(me);
    loop {
        let sweep = Instant::now() >= next_sweep;
        match check(&store, &mut observation, &wakeup, patience.quarantine, sweep).await {
            Ok(()) if sweep => next_sweep = Instant::now() + jitter(SWEEP),
            Ok(()) => {}
            Err(error) => warn_of!(error, "the lock monitor could not look for dead nodes; trying again"),
        }
        let next_round = Instant::now() + jitter(patience.lease / 6);
        loop {
            if Instant::now() >= next_look {
                next_look = Instant::now() + jitter(patience.lease) * FALLBACK_POLLS;
                if let Err(error) = expire_external(&store, &wakeup).await {
                    warn_of!(error, "the lock monitor could not look for late external workers; trying again");
                    next_look = next_round;
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = late.notified() => next_look = Instant::now(),
                () = tokio::time::sleep_until(next_round) => break,
            }
        }
    }
}

async fn check(
    store: &Arc<dyn Recovery>,
    observation: &mut Observation,
    wakeup: &WakeUp,
    quarantine: Option<NonZeroU32>,
    sweep: bool,
) -> crate::Result<()> {
    let asked = Instant::now();
    let node_heartbeats = store.node_heartbeats().await?;
    let silent = observation.look(&node_heartbeats, asked.into_std(), Instant::now().into_std());
    let mut dead = if silent.is_empty() { Vec::new() } else { store.declare_dead(&silent).await? };
    // Also nodes that other monitors declared dead: these may not have finished releasing their jobs.
    dead.extend(node_heartbeats.iter().filter(|seen| seen.dead).map(|seen| seen.node));
    if dead.is_empty() && !sweep {
        return Ok(());
    }
    loop {
        let released = store.release_lost(BATCH, quarantine).await?;
        if released.total() > 0 {
            tracing::warn!(nodes = ?dead, waiting = released.waiting, dead_letters = released.dead, "released jobs of dead nodes");
            wakeup.notify([Hint::Any]);
        }
        handlers_lost(released, wakeup);
        if released.total() < BATCH as u64 {
            return Ok(());
        }
    }
}

/// Reports freed groups and permits, so that other jobs may start.
fn handlers_lost(released: Released, wakeup: &WakeUp) {
    if released.ended > 0 {
        tracing::warn!(
            handlers = released.ended,
            "nobody answers for handlers of cancelled jobs any more; what they held is free"
        );
        wakeup.notify([Hint::Admission]);
    }
}

/// Releases jobs whose external worker let its lease run out. This is done here and not in the broker's tasks, so that it goes on when no
/// node reaches the broker.
async fn expire_external(store: &Arc<dyn Recovery>, wakeup: &WakeUp) -> crate::Result<()> {
    loop {
        let released = store.expire_external(BATCH).await?;
        if released.total() > 0 {
            tracing::warn!(
                waiting = released.waiting,
                dead_letters = released.dead,
                "external workers did not report in time; their jobs were released"
            );
            wakeup.notify([Hint::Any]);
        }
        handlers_lost(released, wakeup);
        if released.total() < BATCH as u64 {
            return Ok(());
        }
    }
}
