//! A node's lease, and the thread that keeps it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind, Result, warn_of};
use crate::executor::lifecycle::vitals::Vitals;
use crate::executor::node::in_flight::InFlight;
use crate::job::NodeId;
use crate::store::{Nodes, Outage, ServerIdentity};

mod liveness;
#[cfg(test)]
mod tests;

pub(crate) use self::liveness::Liveness;

/// Renews a node's lease, on its own thread, runtime and connections: a handler that blocks the application's runtime, or uses up its
/// connections, must not cost the node its lease. Only a runtime that runs no task for minutes does: see [`Liveness`].
///
/// If the lease can't be renewed in time, `lost` is cancelled before the lease ends, so that the node stops its work before others may take
/// it. Time is measured from before a renewal was sent, which is earlier than the instant from which the database counts.
///
/// The first renewal is sent at once, and a node takes no work before it has succeeded: a node that can't have a connection for its
/// heartbeat could not keep what it takes.
pub(crate) struct Heartbeat {
    stop: Option<oneshot::Sender<()>>,
    proven: oneshot::Receiver<()>,
    thread: Option<thread::JoinHandle<()>>,
    lost: CancellationToken,
    leaving: Arc<AtomicBool>,
    hopeless: Arc<OnceLock<Error>>,
}

impl Heartbeat {
    /// Starts the heartbeat of a lease that was granted.
    pub(crate) fn start(
        store: Arc<dyn Nodes>,
        granted: Granted,
        doubts: Arc<InFlight>,
        vitals: Arc<Vitals>,
        liveness: Option<Liveness>,
    ) -> Result<Self> {
        let Granted { node, lease, since, server } = granted;
        let lost = CancellationToken::new();
        let (stop, stopped) = oneshot::channel();
        let (proving, proven) = oneshot::channel();
        let (hopeless, leaving) = (Arc::<OnceLock<Error>>::default(), Arc::<AtomicBool>::default());
        let heartbeat = HeartbeatLoop {
            renewal: Renewing { store, node, own: None, lends: false, together: false },
            node,
            lease,
            last: Instant::from_std(since),
            lost: lost.clone(),
            leaving: leaving.clone(),
            hopeless: hopeless.clone(),
            doubts,
            vitals,
            server,
            proving: Some(proving),
            liveness,
        };
        let thread = thread::Builder::new()
            .name("jobwright-heartbeat".to_owned())
            .spawn(move || match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(heartbeat.run(stopped)),
                Err(error) => {
                    tracing::error!(%error, "the heartbeat can't run; this node gives up its lease");
                    heartbeat.lost.cancel();
                }
            })
            .map_err(|e| {
                Error::new(ErrorKind::Busy, "the thread for heartbeats could not be started").with_source(e)
            })?;
        Ok(Self { stop: Some(stop), proven, thread: Some(thread), lost, leaving, hopeless })
    }

    /// Waits until the lease was renewed once. `false`: it is lost before.
    pub(crate) async fn proven(&mut self) -> bool {
        tokio::select! {
            proven = &mut self.proven => proven.is_ok(),
            () = self.lost.cancelled() => false,
        }
    }

    /// Notes that the node ends its lease itself. A renewal that meets the end is no loss. Until then others may not take the work.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    /// Cancelled when the lease is lost.
    pub(crate) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Returns why the lease is lost for good: the database that this node works on is gone.
    pub(crate) fn hopeless(&self) -> Option<Error> {
        self.hopeless.get().map(Error::for_another)
    }

    /// Stops the heartbeat, and waits for a renewal under way.
    pub(crate) async fn stop(mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It ends within one deadline of the store.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// How a lease is renewed.
trait Renewal {
    /// Renews the lease, and asks which server did. `false`: the node was declared dead, or is unknown.
    async fn renew(&mut self) -> Result<(bool, Option<ServerIdentity>)>;

    /// Notes that no answer came. Returns whether that is logged elsewhere.
    fn unanswered(&mut self) -> bool;
}

/// Renews a lease in a database, on its own connections.
struct Renewing {
    store: Arc<dyn Nodes>,
    node: NodeId,
    own: Option<Arc<dyn Nodes>>,
    /// Whether the engine lends a connection at present.
    lends: bool,
    /// Whether one statement renews the lease and identifies the server: the role has the right to do both.
    together: bool,
}

impl Renewal for Renewing {
    async fn renew(&mut self) -> Result<(bool, Option<ServerIdentity>)> {
        let store = match self.own.take() {
            Some(own) => own,
            None => match self.store.detached().await {
                Ok(own) => own,
                // The server has no connection left for this node. The engine has some, and they are of no use without the lease.
                Err(error) if error.kind() == ErrorKind::Busy => {
                    if !std::mem::replace(&mut self.lends, true) {
                        tracing::warn!(node = %self.node, %error, "the heartbeat gets no separate connection; the engine lends it one");
                    }
                    return Ok((self.store.heartbeat(self.node).await?, None));
                }
                Err(error) => return Err(error),
            },
        };
        self.lends = false;
        let store = self.own.insert(store);
        if self.together {
            match store.heartbeat_and_identity(self.node).await {
                Err(error) if !error.is_retryable() => {
                    tracing::debug!(%error, "the lease is renewed by a separate statement from now on");
                    self.together = false;
                }
                answer => return answer,
            }
        }
        if !store.heartbeat(self.node).await? {
            return Ok((false, None));
        }
        let server = store.identity().await.unwrap_or_else(|error| {
            // Not worth the lease: the role may lack the right to ask.
            tracing::debug!(%error, "could not identify the server");
            None
        });
        self.together = server.is_some();
        Ok((true, server))
    }

    fn unanswered(&mut self) -> bool {
        // The connections may be stuck in a broken network.
        self.own = None;
        self.store.outage().is_some_and(Outage::unanswered)
    }
}

/// A lease that was granted to a node.
pub(crate) struct Granted {
    pub(crate) node: NodeId,
    pub(crate) lease: Duration,
    /// An instant just before it began.
    pub(crate) since: std::time::Instant,
    /// The server that granted it.
    pub(crate) server: Option<ServerIdentity>,
}

/// Returns for how long a node works after a renewal: it stops before others may take its work, by a tenth of the lease, at most a second.
pub(crate) fn usable(lease: Duration) -> Duration {
    lease.saturating_sub((lease / 10).min(Duration::from_secs(1)))
}

struct HeartbeatLoop<R> {
    renewal: R,
    node: NodeId,
    lease: Duration,
    last: Instant,
    lost: CancellationToken,
    /// Whether the node ends its lease itself.
    leaving: Arc<AtomicBool>,
    hopeless: Arc<OnceLock<Error>>,
    /// Reconciles when the database may have forgotten something, or this node may have missed something.
    doubts: Arc<InFlight>,
    vitals: Arc<Vitals>,
    /// The server at the last heartbeat.
    server: Option<ServerIdentity>,
    /// Notified of the first renewal.
    proving: Option<oneshot::Sender<()>>,
    /// Asks whether the application's runtime goes on.
    liveness: Option<Liveness>,
}

impl<R: Renewal> HeartbeatLoop<R> {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        let mut pause = if self.proving.is_some() { Duration::ZERO } else { self.lease / 3 };
        let mut failed = false;
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
            if self.liveness.as_mut().is_some_and(|liveness| liveness.is_over(self.node, self.lease)) {
                self.lost.cancel();
                return;
            }
            let sent = Instant::now();
            // A renewal that takes longer than the lease is useless. A shorter wait leaves time for a second try.
            let patience = (self.lease / 3).min(self.left()).max(Duration::from_millis(50));
            pause = match timeout(patience, self.renewal.renew()).await {
                Ok(Ok((true, server))) => {
                    self.last = sent;
                    if self.is_another(server, failed) {
                        self.lost.cancel();
                        return;
                    }
                    failed = false;
                    self.vitals.renewed(sent.into_std(), self.usable());
                    if let Some(proving) = self.proving.take() {
                        // The session may have ended meanwhile.
                        let _ = proving.send(());
                    }
                    self.lease / 3
                }
                Ok(Ok((false, _))) if self.leaving.load(Ordering::Acquire) => return,
                Ok(Ok((false, _))) => {
                    tracing::error!(node = %self.node, "this node was declared dead; stopping all its work");
                    self.lost.cancel();
                    return;
                }
                Ok(Err(error)) if error.kind() == ErrorKind::Replaced => {
                    tracing::error!(node = %self.node, %error, "this node can't go on; stopping all its work");
                    let _ = self.hopeless.set(error);
                    self.lost.cancel();
                    return;
                }
                Ok(Err(error)) => {
                    self.vitals.not_renewed(error.to_string());
                    warn_of!(error, node = %self.node, "the lease was not renewed; trying again");
                    failed = true;
                    self.lease / 20
                }
                Err(_) => {
                    self.vitals.not_renewed(format!("no answer within {patience:.1?}"));
                    // The store's own deadline may be much later.
                    if !self.renewal.unanswered() {
                        tracing::warn!(node = %self.node, "no answer to the renewal of the lease; trying again");
                    }
                    failed = true;
                    self.lease / 20
                }
            };
        }
    }

    /// Returns whether another server answers than before, or the same one on another timeline, after a failover or a restore.
    ///
    /// Such a server may have forgotten claims and ends of jobs, and the connections that claim may still lead to the old one. So this node
    /// session ends. After a failed heartbeat, or a restart of the server, answers may have got lost. Then this node compares what it owns
    /// with what it has in flight.
    fn is_another(&mut self, server: Option<ServerIdentity>, failed: bool) -> bool {
        let Some(server) = server else { return false };
        let before = self.server.replace(server.clone());
        let Some(before) = before else { return false };
        if before.history != server.history {
            tracing::error!(
                node = %self.node, before = before.history, now = server.history,
                "another server answers, or one that was restored; stopping all work of this node to register again"
            );
            return true;
        }
        if failed || before.started != server.started {
            self.doubts.suspect();
        }
        false
    }

    /// Returns the time until the node must stop.
    fn left(&self) -> Duration {
        (self.last + self.usable()).saturating_duration_since(Instant::now())
    }

    fn usable(&self) -> Duration {
        usable(self.lease)
    }
}
