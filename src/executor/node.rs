//! A node's lease, and the thread that keeps it.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind, Result};
use crate::job::NodeId;
use crate::store::JobStore;

/// Renews a node's lease, on a thread, a runtime and connections of its own: a handler that blocks the application's runtime,
/// or uses up its connections, must not cost the node its lease.
///
/// If the lease could not be renewed in time, it cancels `lost` before the lease ends, so that the node stops its work before
/// others may take it. Time is measured from before a renewal was sent, which is earlier than the moment from which the
/// database counts.
pub(super) struct Heart {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
    lost: CancellationToken,
}

impl Heart {
    /// Starts beating. `registered` is a moment just before the lease began.
    pub(super) fn start(store: Arc<dyn JobStore>, node: NodeId, lease: Duration, registered: Instant) -> Result<Self> {
        let lost = CancellationToken::new();
        let (stop, stopped) = oneshot::channel();
        let beat = Beat { store, node, lease, last: registered, lost: lost.clone() };
        let thread = thread::Builder::new()
            .name("jobwright-heart".to_owned())
            .spawn(move || match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(beat.run(stopped)),
                Err(error) => {
                    tracing::error!(%error, "the heartbeat can't run; this node gives up its lease");
                    beat.lost.cancel();
                }
            })
            .map_err(|e| {
                Error::new(ErrorKind::Busy, "the thread for heartbeats could not be started").with_source(e)
            })?;
        Ok(Self { stop: Some(stop), thread: Some(thread), lost })
    }

    /// Cancelled when the lease is lost.
    pub(super) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Stops beating, and waits for a renewal under way.
    pub(super) async fn stop(mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It ends within one deadline of the store.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

struct Beat {
    store: Arc<dyn JobStore>,
    node: NodeId,
    lease: Duration,
    last: Instant,
    lost: CancellationToken,
}

impl Beat {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        let mut own: Option<Arc<dyn JobStore>> = None;
        let mut pause = self.lease / 3;
        loop {
            tokio::select! {
                _ = &mut stopped => return,
                () = tokio::time::sleep(pause.min(self.left())) => {}
            }
            if self.left().is_zero() {
                tracing::error!(node = %self.node, "the lease could not be renewed in time; stopping all work of this node");
                self.lost.cancel();
                return;
            }
            let sent = Instant::now();
            // A renewal that takes longer than the lease is worth nothing; a shorter wait leaves room for a second try.
            let patience = (self.lease / 3).min(self.left()).max(Duration::from_millis(50));
            pause = match timeout(patience, self.beat(&mut own)).await {
                Ok(Ok(true)) => {
                    self.last = sent;
                    self.lease / 3
                }
                Ok(Ok(false)) => {
                    tracing::error!(node = %self.node, "this node was declared dead; stopping all its work");
                    self.lost.cancel();
                    return;
                }
                Ok(Err(error)) => {
                    tracing::warn!(node = %self.node, %error, "the lease was not renewed; trying again");
                    self.lease / 20
                }
                Err(_) => {
                    tracing::warn!(node = %self.node, "no answer to the renewal of the lease; trying again");
                    // Its connections may be stuck in a broken network.
                    own = None;
                    self.lease / 20
                }
            };
        }
    }

    async fn beat(&self, own: &mut Option<Arc<dyn JobStore>>) -> Result<bool> {
        let store = match own {
            Some(store) => store,
            None => own.insert(self.store.detached().await?),
        };
        store.heartbeat(self.node).await
    }

    /// Time until the node must stop: a tenth of the lease, at most a second, before others may take its work.
    fn left(&self) -> Duration {
        let margin = (self.lease / 10).min(Duration::from_secs(1));
        (self.last + self.lease.saturating_sub(margin)).saturating_duration_since(Instant::now())
    }
}
