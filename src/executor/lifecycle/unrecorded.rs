//! The outcomes that a node knows when it loses its lease.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::backoff::Reconnect;
use crate::executor::lifecycle::settings::Settings;
use crate::executor::metrics::releases::ReleaseReason;
use crate::executor::node::unrecorded::Unrecorded;
use crate::executor::outcome::completer::Completer;
use crate::job::NodeId;

/// How long a node that has lost its lease waits for a database, and how long it then tries to record what it knows.
const RECORDING: Duration = Duration::from_secs(5);
/// The same while the executor stops.
const STOPPING: Duration = Duration::from_secs(1);

/// Records the outcomes that a node left whose lease is lost, before it is retired and its jobs are given back.
///
/// A database that answers nobody for a lease costs all nodes their leases, and none of them is declared dead, because that takes the database too.
/// So the claims are current, and jobs whose handlers have ended need not run again. Where another node has declared this one dead and taken a job,
/// the store refuses the outcome, as it refuses that of any claim that is no longer current.
///
/// Leaves in `left` the outcomes that are not recorded in time, and all of them if the database that answers first is a copy, or can't tell.
pub(crate) async fn record(settings: &Settings, node: NodeId, left: &mut Vec<Unrecorded>, stop: &CancellationToken) {
    if left.is_empty() {
        return;
    }
    // Existing connections may be stuck, or lead to a server that is no longer the right one.
    settings.store.reconnect();
    let is_at_home = tokio::select! {
        is_at_home = is_at_home(settings) => is_at_home,
        () = too_long(stop) => false,
    };
    if is_at_home {
        record_at_home(settings, node, left, stop).await;
    }
}

/// Does the same in a database that was just seen to be the one that the outcomes are of.
pub(crate) async fn record_at_home(
    settings: &Settings,
    node: NodeId,
    left: &mut Vec<Unrecorded>,
    stop: &CancellationToken,
) {
    if left.is_empty() {
        return;
    }
    let over = CancellationToken::new();
    let completer = Completer {
        store: settings.store.clone(),
        node,
        in_flight: Arc::default(),
        counters: settings.counters.clone(),
        wakeup: settings.wakeup.clone(),
        next: Weak::new(),
        finish: CancellationToken::new(),
        lost: over.clone(),
    };
    let known = left.len();
    let released = settings.counters.released.load(Ordering::Relaxed);
    let recording = completer.record_left(std::mem::take(left));
    tokio::pin!(recording);
    *left = tokio::select! {
        left = &mut recording => left,
        () = too_long(stop) => {
            over.cancel();
            recording.await
        }
    };
    let released = settings.counters.released.load(Ordering::Relaxed).saturating_sub(released);
    settings.counters.releases.add_many(ReleaseReason::LeaseLost.as_str(), released);
    let recorded = (known - left.len()).saturating_sub(usize::try_from(released).unwrap_or(usize::MAX));
    if recorded > 0 {
        tracing::info!(%node, recorded, "recorded the outcomes that were known when the lease was lost");
    }
}

/// Completes when a step has taken too long.
async fn too_long(stop: &CancellationToken) {
    let stopping = async {
        stop.cancelled().await;
        tokio::time::sleep(STOPPING).await;
    };
    let _ = tokio::time::timeout(RECORDING, stopping).await;
}

/// Waits until a database answers, and tells whether it is the one that the outcomes are of. A copy has rows of the same jobs.
async fn is_at_home(settings: &Settings) -> bool {
    let mut delays = Reconnect::new(Duration::from_secs(1));
    loop {
        match settings.installation_at_home().await {
            Ok(_) => return true,
            Err(error) if error.is_retryable() => tokio::time::sleep(delays.next_delay()).await,
            Err(_) => return false,
        }
    }
}
