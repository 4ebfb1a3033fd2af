//! The lock monitor: releases what dead owners hold, and what external workers did not report in time.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::jitter;
use super::observation::Observation;
use super::upkeep::UNTOLD;
use crate::error::warn_of;
use crate::job::NodeId;
use crate::message::WakeUp;
use crate::store::{Hint, JobStore, Released};

/// Jobs released in one transaction.
const BATCH: usize = 500;
/// How often the whole table is searched for owners that nobody knows, which only a node's row deleted by hand leaves behind.
const SWEEP: Duration = Duration::from_secs(600);

/// How long and how often the monitor puts up with silence.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    pub(super) lease: Duration,
    /// See [`JobStore::release_lost`].
    pub(super) quarantine: Option<NonZeroU32>,
}

/// Declares nodes dead that were silent for a lease and gives their jobs back. Every node runs one; they need no leader, because the
/// database lets only one of them have a row. Unlike jBPM's, it can't be forgotten: it starts with the executor.
///
/// `late` is rung when an external worker has let a lease run out.
pub(super) async fn run(
    store: Arc<dyn JobStore>,
    me: NodeId,
    wakeup: Arc<WakeUp>,
    patience: Patience,
    late: Arc<Notify>,
    stop: CancellationToken,
) {
    // Not at the start: it walks the whole table, when there is work to claim.
    let mut next_sweep = Instant::now() + jitter(SWEEP / 10);
    let mut next_look = Instant::now();
    let mut observation = Observation::by(me);
    loop {
        let sweep = Instant::now() >= next_sweep;
        match round(&store, &mut observation, &wakeup, patience.quarantine, sweep).await {
            Ok(()) if sweep => next_sweep = Instant::now() + jitter(SWEEP),
            Ok(()) => {}
            Err(error) => warn_of!(error, "the lock monitor could not look for dead nodes; trying again"),
        }
        let next_round = Instant::now() + jitter(patience.lease / 6);
        loop {
            if Instant::now() >= next_look {
                next_look = Instant::now() + jitter(patience.lease) * UNTOLD;
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

async fn round(
    store: &Arc<dyn JobStore>,
    observation: &mut Observation,
    wakeup: &WakeUp,
    quarantine: Option<NonZeroU32>,
    sweep: bool,
) -> crate::Result<()> {
    let asked = Instant::now();
    let pulses = store.pulses().await?;
    let silent = observation.look(&pulses, asked.into_std(), Instant::now().into_std());
    let mut dead = if silent.is_empty() { Vec::new() } else { store.declare_dead(&silent).await? };
    // Also those of others, who may not have finished with them.
    dead.extend(pulses.iter().filter(|pulse| pulse.dead).map(|pulse| pulse.node));
    if dead.is_empty() && !sweep {
        return Ok(());
    }
    loop {
        let released = store.release_lost(BATCH, quarantine).await?;
        if released.total() > 0 {
            tracing::warn!(nodes = ?dead, waiting = released.waiting, dead_letters = released.dead, "released jobs of dead nodes");
            wakeup.tell([Hint::Any]);
        }
        handlers_lost(released, wakeup);
        if released.total() < BATCH as u64 {
            return Ok(());
        }
    }
}

/// What they held may let others start.
fn handlers_lost(released: Released, wakeup: &WakeUp) {
    if released.ended > 0 {
        tracing::warn!(
            handlers = released.ended,
            "nobody answers for handlers of cancelled jobs any more; what they held is free"
        );
        wakeup.tell([Hint::Gate]);
    }
}

/// Jobs whose external worker let its lease run out. Here and not beside the broker: it goes on when no node reaches that.
async fn expire_external(store: &Arc<dyn JobStore>, wakeup: &WakeUp) -> crate::Result<()> {
    loop {
        let released = store.expire_external(BATCH).await?;
        if released.total() > 0 {
            tracing::warn!(
                waiting = released.waiting,
                dead_letters = released.dead,
                "external workers did not report in time; their jobs were released"
            );
            wakeup.tell([Hint::Any]);
        }
        handlers_lost(released, wakeup);
        if released.total() < BATCH as u64 {
            return Ok(());
        }
    }
}
