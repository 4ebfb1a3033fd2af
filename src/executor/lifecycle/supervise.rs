//! One node session after the other, through lost leases and failovers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::backoff::Reconnect;
use crate::error::{ErrorKind, Result, warn_of};
use crate::executor::lifecycle::drain::SessionEnd;
use crate::executor::lifecycle::settings::Settings;
use crate::executor::lifecycle::{session, unrecorded};
use crate::executor::metrics::stats::add;
use crate::executor::node::in_flight::InFlight;
use crate::executor::node::unrecorded::Unrecorded;
use crate::job::NodeId;
use crate::store::InFlightCount;

/// Runs one node session after the other until `stop` is cancelled or the database is gone.
pub(crate) async fn supervise(
    settings: Arc<Settings>,
    first: (NodeId, Instant),
    stop: CancellationToken,
    current: Arc<Mutex<Arc<InFlight>>>,
) -> Result<()> {
    let mut registered = first;
    let mut delays = Reconnect::new(Duration::from_secs(5));
    let hands: Arc<InFlightCount> = {
        let current = current.clone();
        Arc::new(move || current.lock().unwrap_or_else(PoisonError::into_inner).len())
    };
    if let Some(outage) = settings.store.outage() {
        outage.count(&hands);
    }
    loop {
        let began = Instant::now();
        let started = |in_flight| *current.lock().unwrap_or_else(PoisonError::into_inner) = in_flight;
        let mut left = Vec::new();
        match session::run(&settings, registered, &stop, started).await {
            Ok((SessionEnd::Stopped, _)) => return Ok(()),
            Ok((SessionEnd::LeaseLost, unrecorded)) => {
                left = unrecorded;
                add(&settings.counters.leases_lost, 1);
                // Its handlers were stopped. Its jobs are no longer in flight here, whichever node gets them.
                *current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
            }
            Err(error) if error.kind() == ErrorKind::Replaced => return Err(error),
            Err(error) => tracing::error!(%error, "the executor could not start; trying again"),
        }
        unrecorded::record(&settings, registered.0, &mut left, &stop).await;
        if began.elapsed() >= settings.node.lease {
            delays.reset();
        } else {
            // Sessions that end quickly are spaced out: connections may lead to different servers for a while.
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(delays.next_delay()) => {}
            }
        }
        registered = loop {
            if stop.is_cancelled() {
                not_taken(&left);
                return Ok(());
            }
            match again(&settings, registered.0, &mut left, &stop).await {
                Ok(registered) => {
                    not_taken(&left);
                    break registered;
                }
                Err(error) => warn_of!(error, "the executor could not register again; trying again"),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(delays.next_delay()) => {}
            }
        };
    }
}

/// Tells that outcomes were not recorded, so that handlers which have ended run again.
fn not_taken(left: &[Unrecorded]) {
    if !left.is_empty() {
        tracing::warn!(n = left.len(), "the database did not take these outcomes in time; their jobs run again");
    }
}

/// Records the outcomes that are left of a node session whose lease was lost, ends it, and registers a new one.
async fn again(
    settings: &Settings,
    old: NodeId,
    left: &mut Vec<Unrecorded>,
    stop: &CancellationToken,
) -> Result<(NodeId, Instant)> {
    if !left.is_empty() {
        settings.store.reconnect();
        settings.installation_at_home().await?;
        unrecorded::record_at_home(settings, old, left, stop).await;
    }
    // The jobs are given back here. It checks once more: recording takes a while.
    settings.register_again(old).await
}
