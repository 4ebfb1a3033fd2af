//! The lock monitor: releases the jobs of dead nodes.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::{between, jitter};
use crate::error::Result;
use crate::executor::maintenance::observation::Observation;
use crate::executor::maintenance::periodic::{Next, Periodic};
use crate::executor::metrics::releases::ReleaseReason;
use crate::executor::metrics::stats::Counters;
use crate::executor::node::Node;
use crate::executor::node::signals::{HeartbeatsSeen, Signals};
use crate::job::NodeId;
use crate::message::WakeUp;
use crate::store::{Hint, Nodes, Released};

/// The most jobs released in one transaction.
pub(crate) const BATCH: usize = 500;
/// How often the whole table is searched for unknown owners. Only deleting a node's row by hand leaves such owners behind.
const SWEEP: Duration = Duration::from_secs(600);

/// How much silence and how many deaths the monitor tolerates.
#[derive(Clone, Copy)]
pub(crate) struct MonitorConfig {
    pub(crate) lease: Duration,
    /// See [`Nodes::release_lost`].
    pub(crate) quarantine: Option<NonZeroU32>,
}

impl MonitorConfig {
    /// Returns how often the monitor wants to see the heartbeats.
    pub(crate) fn interval(self) -> Duration {
        self.lease / 6
    }

    /// Returns how long it waits for polls to read them, before it reads them itself.
    pub(crate) fn patience(self) -> Duration {
        self.lease / 4
    }
}

/// Declares nodes dead that were silent for a lease, and releases their jobs. Every node does. They need no leader, because the database
/// lets only one of them have a row. Unlike jBPM's it can't be forgotten: it starts with the executor.
pub(crate) struct LockMonitor {
    store: Arc<dyn Nodes>,
    me: NodeId,
    signals: Signals,
    wakeup: Arc<WakeUp>,
    counters: Arc<Counters>,
    patience: MonitorConfig,
    observation: Observation,
    next_sweep: Instant,
}

impl LockMonitor {
    pub(crate) fn new(node: &Node, patience: MonitorConfig) -> Self {
        // Not at the start, when there are jobs to claim: it walks the whole table.
        let next_sweep = Instant::now() + between(SWEEP / 10, SWEEP);
        let (store, me, signals, wakeup) = (node.store.clone(), node.id, node.signals.clone(), node.wakeup.clone());
        let counters = node.counters.clone();
        Self { store, me, signals, wakeup, counters, patience, observation: Observation::by(me), next_sweep }
    }

    /// Returns the heartbeats of the nodes that this one watches: those that a poll has read, or else new ones.
    async fn heartbeats(&self) -> Result<HeartbeatsSeen> {
        if let Some(seen) = self.signals.take_seen() {
            return Ok(seen);
        }
        let asked = std::time::Instant::now();
        let heartbeats = self.store.watched_heartbeats(self.me).await?;
        Ok(HeartbeatsSeen { asked, answered: std::time::Instant::now(), heartbeats })
    }
}

impl Periodic for LockMonitor {
    const FAILED: &'static str = "the lock monitor could not look for dead nodes";

    async fn run(&mut self) -> Result<Next> {
        let sweep = Instant::now() >= self.next_sweep;
        let seen = self.heartbeats().await?;
        let tell = (&*self.wakeup, &*self.counters);
        check(&self.store, &seen, &mut self.observation, tell, self.patience.quarantine, sweep).await?;
        if sweep {
            self.next_sweep = Instant::now() + jitter(SWEEP);
        }
        Ok(Next::After(self.patience.patience()))
    }
}

async fn check(
    store: &Arc<dyn Nodes>,
    seen: &HeartbeatsSeen,
    observation: &mut Observation,
    (wakeup, counters): (&WakeUp, &Counters),
    quarantine: Option<NonZeroU32>,
    sweep: bool,
) -> Result<()> {
    let silent = observation.look(&seen.heartbeats, seen.asked, seen.answered);
    let mut dead = if silent.is_empty() { Vec::new() } else { store.declare_dead(&silent).await? };
    // Also nodes that other monitors declared dead: these may not have finished releasing their jobs.
    dead.extend(seen.heartbeats.iter().filter(|seen| seen.dead).map(|seen| seen.node));
    if dead.is_empty() && !sweep {
        return Ok(());
    }
    loop {
        let released = store.release_lost(BATCH, quarantine).await?;
        if released.total() > 0 {
            let nodes = dead.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            tracing::warn!(
                nodes,
                waiting = released.waiting,
                dead_letters = released.dead,
                "released jobs of dead nodes"
            );
            wakeup.notify([Hint::Any]);
        }
        handlers_lost(released, wakeup);
        counters.releases.add_many(ReleaseReason::OwnerLost.as_str(), released.waiting);
        if released.total() < BATCH as u64 {
            return Ok(());
        }
    }
}

/// Reports freed groups and permits, so that other jobs may start.
pub(crate) fn handlers_lost(released: Released, wakeup: &WakeUp) {
    if released.ended > 0 {
        tracing::warn!(
            handlers = released.ended,
            "no node answers for handlers of cancelled jobs any more; their groups and permits were released"
        );
        wakeup.notify([Hint::Admission]);
    }
}
