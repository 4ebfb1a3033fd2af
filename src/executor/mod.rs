//! The command executor.
//!
//! ```text
//!            claim (batches, free slots only)            outcomes (batches)
//!  job table ────────────▶ Dispatcher ──▶ workers ──▶ Completer ────────▶ job table
//!      ▲      one a queue      ▲            │ handler used its transaction: its own commit
//!      │                       └── hints: commits here, LISTEN, polls
//!      ├── Broker: deliveries, submissions, external workers (see `broker`)
//!      ├── Timers: due timers to waiting
//!      ├── Admission: jobs of groups and under limits, when they may start
//!      ├── Telling: what has ended here under limits that claims count
//!      ├── Scheduler: jobs of due schedules
//!      ├── Cancellations: handlers whose job was cancelled are told
//!      ├── LockMonitor: jobs of dead nodes to waiting, or to dead letters
//!      └── Heart: renews the node's lease, on a thread of its own
//! ```
//!
//! An executor lives under a node id, which is new for each start. When it can't renew its lease in time it stops all its
//! work before others may take it, registers under a new id and goes on: an outage of the database needs no restart.

mod admission;
mod batch;
mod broker;
mod builder;
pub(crate) mod by_hand;
mod cancellations;
mod clock;
mod command;
mod completer;
mod dispatcher;
mod drain;
mod ends;
mod expiry;
mod failing;
mod hand_on;
mod in_flight;
mod incarnation;
mod job_context;
mod limits;
mod line;
mod listener;
mod middleware;
mod monitor;
mod node;
mod observation;
mod panic;
mod progress;
mod pruner;
mod queue;
mod registry;
mod scan;
mod scheduler;
mod stats;
mod telling;
mod timers;
mod upkeep;
mod worker;

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use self::batch::{Batch, BatchOptions, BatchOutcomes};
pub use self::broker::ExternalQueue;
pub use self::builder::ExecutorBuilder;
pub use self::command::{Command, DEFAULT_TIMEOUT, KindOptions};
pub use self::failing::Classifier;
use self::failing::Failing;
use self::in_flight::InFlight;
use self::incarnation::{End, Incarnation};
pub use self::job_context::JobContext;
pub use self::middleware::{Middleware, Next};
use self::registry::Registry;
pub use self::stats::ExecutorStats;
use self::stats::{Counters, add};
use crate::backoff::Reconnect;
use crate::error::{Error, ErrorKind, Result, warn_of};
use crate::job::NodeId;
use crate::message::MessageServices;
use crate::store::{InHand, NodeInfo, Store};

/// What an executor was built with.
struct Settings<S: Store> {
    messages: MessageServices<S>,
    registry: Arc<Registry<S>>,
    queues: Vec<(String, usize)>,
    /// Queues whose jobs go to external workers.
    external: Vec<ExternalQueue>,
    node: NodeInfo,
    poll_interval: Duration,
    failing: Arc<Failing>,
    /// After how many deaths of its nodes a job is a dead letter.
    quarantine: Option<NonZeroU32>,
    call_timeout: Duration,
    cancel_grace: Duration,
    counters: Arc<Counters>,
    /// How long a stop waits for handlers; whoever asks for it may say otherwise.
    grace: Mutex<Duration>,
}

impl<S: Store> Settings<S> {
    fn grace(&self) -> Duration {
        *self.grace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn register(&self) -> Result<(NodeId, Instant)> {
        let since = Instant::now();
        let id = self.messages.shared.jobs.register_node(&self.node).await?;
        tracing::info!(node = %id, name = %self.node.name, lease = ?self.node.lease, "executor started");
        Ok((id, since))
    }

    /// Ends the old incarnation and registers a new one. The process lives and has let go of what it ran, so whatever nobody took from it yet
    /// goes back at no attempt, and no death is counted.
    async fn begin_anew(&self, old: NodeId) -> Result<(NodeId, Instant)> {
        // Those there are may lead to a server that is no longer the right one.
        self.messages.shared.jobs.reconnect();
        let released = self.messages.shared.jobs.retire_node(old).await?;
        if released > 0 {
            tracing::info!(node = %old, released, "gave back the jobs of the lost lease");
        }
        self.register().await
    }
}

/// A running executor. Dropping it stops it at once: handlers are cancelled and their jobs released in the background;
/// [`shutdown`](Self::shutdown) does it in good order.
pub struct CommandExecutor<S: Store = crate::Postgres> {
    settings: Arc<Settings<S>>,
    stop: CancellationToken,
    current: Arc<Mutex<Arc<InFlight>>>,
    supervisor: Option<JoinHandle<Result<()>>>,
    /// Cancelled when the supervisor has ended.
    ended: CancellationToken,
}

impl<S: Store> CommandExecutor<S> {
    /// Starts to build an executor for the jobs of these message services.
    pub fn builder(messages: MessageServices<S>) -> ExecutorBuilder<S> {
        ExecutorBuilder::new(messages)
    }

    async fn start(settings: Settings<S>) -> Result<Self> {
        settings.messages.shared.jobs.check_schema().await?;
        let settings = Arc::new(settings);
        let registered = settings.register().await?;
        let stop = CancellationToken::new();
        let current = Arc::new(Mutex::new(Arc::default()));
        let ended = CancellationToken::new();
        let (over, run) =
            (ended.clone().drop_guard(), supervise(settings.clone(), registered, stop.clone(), current.clone()));
        let supervisor = tokio::spawn(async move {
            // Whatever ends it.
            let _over = over;
            run.await
        });
        Ok(Self { settings, stop, current, supervisor: Some(supervisor), ended })
    }

    /// What it did so far.
    pub fn stats(&self) -> ExecutorStats {
        let in_flight = self.current.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.settings.counters.snapshot(in_flight)
    }

    /// Waits until the executor has ended by itself, and [`shutdown`](Self::shutdown) says why. It goes on through outages, lost leases and
    /// failovers, so that is only when its database is no longer there: the file of an embedded one was moved or replaced
    /// ([`Replaced`](ErrorKind::Replaced)). Its handlers were cancelled then.
    ///
    /// A program that does not wait for this keeps an executor that does nothing. Dropping the future loses nothing.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Stops claiming, waits up to `grace` (`None`: [`ExecutorConfig::grace`](crate::ExecutorConfig::grace)) for running handlers, cancels those that remain, and releases what did not finish
    /// without costing it an attempt.
    ///
    /// # Errors
    /// When it had [ended](Self::ended) by itself: why. When the executor's own task died; the jobs it held are then released when its lease
    /// ends.
    pub async fn shutdown(mut self, grace: impl Into<Option<Duration>>) -> Result<ExecutorStats> {
        if let Some(grace) = grace.into() {
            *self.settings.grace.lock().unwrap_or_else(PoisonError::into_inner) = grace;
        }
        self.stop.cancel();
        if let Some(supervisor) = self.supervisor.take() {
            supervisor.await.map_err(|e| {
                Error::new(ErrorKind::Database, "the executor did not end in good order").with_source(e)
            })??;
        }
        Ok(self.stats())
    }
}

impl<S: Store> Drop for CommandExecutor<S> {
    fn drop(&mut self) {
        if self.supervisor.is_some() {
            *self.settings.grace.lock().unwrap_or_else(PoisonError::into_inner) = Duration::ZERO;
            self.stop.cancel();
        }
    }
}

/// Runs one incarnation after the other until told to stop, or until the database is no longer there.
async fn supervise<S: Store>(
    settings: Arc<Settings<S>>,
    first: (NodeId, Instant),
    stop: CancellationToken,
    current: Arc<Mutex<Arc<InFlight>>>,
) -> Result<()> {
    let mut registered = first;
    let mut delays = Reconnect::new(Duration::from_secs(5));
    let hands: Arc<InHand> = {
        let current = current.clone();
        Arc::new(move || current.lock().unwrap_or_else(PoisonError::into_inner).len())
    };
    if let Some(outage) = settings.messages.shared.jobs.outage() {
        outage.count(&hands);
    }
    loop {
        let began = Instant::now();
        let started = |in_flight| *current.lock().unwrap_or_else(PoisonError::into_inner) = in_flight;
        match Incarnation::run(&settings, registered, &stop, started).await {
            Ok(End::Stopped) => return Ok(()),
            Ok(End::LeaseLost) => {
                add(&settings.counters.leases_lost, 1);
                // Its handlers were stopped; whoever gets their jobs, they are not in hand any more.
                *current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
            }
            Err(error) if error.kind() == ErrorKind::Replaced => return Err(error),
            Err(error) => tracing::error!(%error, "the executor could not start; trying again"),
        }
        if began.elapsed() >= settings.node.lease {
            delays.reset();
        } else {
            // One after the other: its connections may lead to different servers, and that takes a while to end.
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(delays.next_delay()) => {}
            }
        }
        registered = loop {
            if stop.is_cancelled() {
                return Ok(());
            }
            match settings.begin_anew(registered.0).await {
                Ok(registered) => break registered,
                Err(error) => {
                    warn_of!(error, "the executor could not register again; trying again");
                }
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(delays.next_delay()) => {}
            }
        };
    }
}

/// Up to a fifth shorter or longer by chance, so that nodes that started together do not ask together.
fn jitter(duration: Duration) -> Duration {
    let chance = (uuid::Uuid::new_v4().as_u64_pair().1 & 0xffff) as f64 / f64::from(u16::MAX);
    duration.mul_f64(0.8 + 0.4 * chance)
}
