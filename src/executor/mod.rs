//! The command executor.
//!
//! ```text
//!             claim (batches, free slots only)             outcomes (batches)
//!  job table ────────────▶ Dispatcher ──▶ workers ──▶ Completer ────────▶ job table
//!      ▲     one per queue      ▲            └─ a handler that used its transaction: its own commit
//!      │                        └── hints: commits in this process, LISTEN, polls
//!      ├── Broker: deliveries, submissions, external workers (see `broker`)
//!      ├── Timers: moves due timers to the waiting jobs
//!      ├── Expiry: removes jobs whose time to live is over
//!      ├── Admission: starts blocked jobs of groups and limits when they may run
//!      ├── UsageReporter: writes what ended here under limits that claims count
//!      ├── Scheduler: inserts the jobs of due schedules
//!      ├── Cancellations: cancels handlers whose job was cancelled
//!      ├── LockMonitor: makes jobs of dead nodes wait again, or dead-letters them
//!      ├── Pruner: deletes old history
//!      └── Heartbeat: renews the node's lease, on its own thread
//! ```
//!
//! An executor lives under a node id, which is new for each start. When it can't renew its lease in time, it stops all its work before
//! others may take it, registers under a new id and goes on. So an outage of the database needs no restart.

mod admission;
mod batch;
mod broker;
mod builder;
mod cancellations;
mod clock;
mod command;
mod completer;
mod dispatcher;
mod drain;
mod ended_handlers;
mod expiry;
mod failure_policy;
mod group_run;
mod group_runner;
mod heartbeat;
mod in_flight;
mod job_context;
mod limits;
mod listener;
mod maintenance;
pub(crate) mod manual;
mod middleware;
mod monitor;
mod node_session;
mod observation;
mod panic;
mod progress;
mod pruner;
mod queue;
mod registry;
mod scan;
mod scheduler;
mod stats;
mod timers;
mod usage_reporter;
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
pub use self::failure_policy::Classifier;
use self::failure_policy::FailurePolicy;
use self::in_flight::InFlight;
pub use self::job_context::JobContext;
pub use self::middleware::{Middleware, Next};
use self::node_session::{NodeSession, SessionEnd};
use self::registry::Registry;
pub use self::stats::ExecutorStats;
use self::stats::{Counters, add};
use crate::backoff::Reconnect;
use crate::error::{Error, ErrorKind, Result, warn_of};
use crate::job::NodeId;
use crate::message::MessageServices;
use crate::store::{InFlightCount, NodeInfo, Store};

/// What an executor was built with.
struct Settings<S: Store> {
    messages: MessageServices<S>,
    registry: Arc<Registry<S>>,
    queues: Vec<(String, usize)>,
    /// Queues whose jobs go to external workers.
    external: Vec<ExternalQueue>,
    node: NodeInfo,
    poll_interval: Duration,
    failure_policy: Arc<FailurePolicy>,
    /// The number of node deaths after which a job is dead-lettered.
    quarantine: Option<NonZeroU32>,
    call_timeout: Duration,
    cancel_grace: Duration,
    counters: Arc<Counters>,
    /// How long a stop waits for handlers. The caller of the stop may override it.
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

    /// Ends the old node session and registers a new one. The process is alive and has stopped its work. So jobs that no other node took
    /// yet are released without costing an attempt, and no death is counted.
    async fn register_again(&self, old: NodeId) -> Result<(NodeId, Instant)> {
        // Existing connections may lead to a server that is no longer the right one.
        self.messages.shared.jobs.reconnect();
        let released = self.messages.shared.jobs.retire_node(old).await?;
        if released > 0 {
            tracing::info!(node = %old, released, "gave back the jobs of the lost lease");
        }
        self.register().await
    }
}

/// A running executor.
///
/// Dropping it stops it at once: handlers are cancelled and their jobs are released in the background. [`shutdown`](Self::shutdown) stops
/// it gracefully.
pub struct CommandExecutor<S: Store = crate::Postgres> {
    settings: Arc<Settings<S>>,
    stop: CancellationToken,
    current: Arc<Mutex<Arc<InFlight>>>,
    supervisor: Option<JoinHandle<Result<()>>>,
    /// Cancelled when the supervisor has ended.
    ended: CancellationToken,
}

impl<S: Store> CommandExecutor<S> {
    /// Returns a builder for an executor that runs the jobs of these message services.
    pub fn builder(messages: MessageServices<S>) -> ExecutorBuilder<S> {
        ExecutorBuilder::new(messages)
    }

    async fn start(settings: Settings<S>) -> Result<Self> {
        crate::store::check_schema(&*settings.messages.shared.jobs).await?;
        let settings = Arc::new(settings);
        let registered = settings.register().await?;
        let stop = CancellationToken::new();
        let current = Arc::new(Mutex::new(Arc::default()));
        let ended = CancellationToken::new();
        let (over, run) =
            (ended.clone().drop_guard(), supervise(settings.clone(), registered, stop.clone(), current.clone()));
        let supervisor = tokio::spawn(async move {
            // However the task ends, dropping this reports the end.
            let _over = over;
            run.await
        });
        Ok(Self { settings, stop, current, supervisor: Some(supervisor), ended })
    }

    /// Returns what the executor has done so far.
    pub fn stats(&self) -> ExecutorStats {
        let in_flight = self.current.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.settings.counters.snapshot(in_flight)
    }

    /// Waits until the executor has ended without being stopped; [`shutdown`](Self::shutdown) then returns the reason.
    ///
    /// It goes on through outages, lost leases and failovers. It ends only when its database is gone: the file of an embedded one was moved
    /// or replaced ([`Replaced`](ErrorKind::Replaced)). Its handlers were cancelled then.
    ///
    /// A program that does not wait for this may keep an executor that does nothing. The future may be dropped at any time.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Stops claiming, waits up to `grace` (`None`: [`ExecutorConfig::grace`](crate::ExecutorConfig::grace)) for running handlers, and
    /// cancels those that remain. Releases unfinished jobs without costing them an attempt.
    ///
    /// # Errors
    /// Returns the reason when the executor had already [ended](Self::ended). Fails when the executor's own task died; its jobs are then
    /// released when its lease ends.
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

/// Runs one node session after the other until `stop` is cancelled or the database is gone.
async fn supervise<S: Store>(
    settings: Arc<Settings<S>>,
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
    if let Some(outage) = settings.messages.shared.jobs.outage() {
        outage.count(&hands);
    }
    loop {
        let began = Instant::now();
        let started = |in_flight| *current.lock().unwrap_or_else(PoisonError::into_inner) = in_flight;
        match NodeSession::run(&settings, registered, &stop, started).await {
            Ok(SessionEnd::Stopped) => return Ok(()),
            Ok(SessionEnd::LeaseLost) => {
                add(&settings.counters.leases_lost, 1);
                // Its handlers were stopped. Its jobs are no longer in flight here, whichever node gets them.
                *current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
            }
            Err(error) if error.kind() == ErrorKind::Replaced => return Err(error),
            Err(error) => tracing::error!(%error, "the executor could not start; trying again"),
        }
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
                return Ok(());
            }
            match settings.register_again(registered.0).await {
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

/// Returns `duration` shortened or lengthened at random by up to a fifth, so that nodes that started together do not poll together.
fn jitter(duration: Duration) -> Duration {
    let chance = (uuid::Uuid::new_v4().as_u64_pair().1 & 0xffff) as f64 / f64::from(u16::MAX);
    duration.mul_f64(0.8 + 0.4 * chance)
}
