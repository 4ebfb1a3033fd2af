//! The executors of a fleet, each with connections of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use jobwright::telemetry::Telemetry;
use jobwright::{CommandExecutor, ExecutorConfig, Job, JobId, MessageServices, Outcome};

use super::ledger::Ledger;
use super::site::Tables;
use crate::Result;
use crate::load::KIND;

/// How long nodes may take to start, or to end.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);

/// Executors of this process. They have the default configuration, but for the lease.
pub(super) struct Nodes {
    executors: Vec<CommandExecutor>,
    pub(super) ledger: Arc<Ledger<JobId>>,
    /// How long a job takes, in milliseconds.
    work: Arc<AtomicU64>,
}

impl Nodes {
    /// Starts all of them at once, and returns when all are ready. Each job takes no time until [`work`](Self::work) says otherwise.
    pub(super) async fn start(tables: &Tables, nodes: usize, lease: Duration) -> Result<Self> {
        let ledger = Arc::new(Ledger::default());
        let work = Arc::new(AtomicU64::new(0));
        let starting = (0..nodes).map(|n| {
            // Tasks of their own: separate processes would not wait for one another either.
            let node = start_one(tables.clone(), format!("fleet-{n}"), lease, ledger.clone(), work.clone());
            async { tokio::spawn(node).await? }
        });
        let began = Instant::now();
        let executors = tokio::time::timeout(PATIENCE, try_join_all(starting))
            .await
            .map_err(|_| format!("{nodes} nodes have not registered within {} s", PATIENCE.as_secs()))??;
        let started = Self { executors, ledger, work };
        until_ready(&started.telemetry(), PATIENCE.saturating_sub(began.elapsed())).await?;
        Ok(started)
    }

    pub(super) fn telemetry(&self) -> Vec<Telemetry> {
        self.executors.iter().map(CommandExecutor::telemetry).collect()
    }

    /// Sets how long a job takes from now on.
    pub(super) fn work(&self, time: Duration) {
        self.work.store(time.as_millis() as u64, Ordering::Relaxed);
    }

    /// Returns how many jobs run.
    pub(super) fn running(&self) -> usize {
        self.executors.iter().map(|executor| executor.stats().in_flight as usize).sum()
    }

    /// Stops all of them.
    pub(super) async fn stop(self) -> Result<()> {
        let stopping = self.executors.into_iter().map(|executor| executor.shutdown(Duration::from_secs(5)));
        let stopped = tokio::time::timeout(PATIENCE, join_all(stopping))
            .await
            .map_err(|_| format!("the nodes have not stopped within {} s", PATIENCE.as_secs()))?;
        for stopped in stopped {
            stopped?;
        }
        Ok(())
    }
}

async fn start_one(
    tables: Tables,
    name: String,
    lease: Duration,
    ledger: Arc<Ledger<JobId>>,
    work: Arc<AtomicU64>,
) -> Result<CommandExecutor> {
    let handler = move |job: Job| {
        ledger.started(job.id);
        let time = Duration::from_millis(work.load(Ordering::Relaxed));
        async move {
            if !time.is_zero() {
                tokio::time::sleep(time).await;
            }
            Ok(Outcome::Done)
        }
    };
    let services = MessageServices::postgres(&tables.config).await?;
    let config = ExecutorConfig::default().name(name).lease(lease);
    Ok(CommandExecutor::builder(services).config(config).handle(KIND, handler).start().await?)
}

/// Waits until all executors are ready.
pub(super) async fn until_ready(nodes: &[Telemetry], patience: Duration) -> Result<()> {
    let deadline = Instant::now() + patience;
    let mut waiting: Vec<&Telemetry> = nodes.iter().collect();
    loop {
        waiting.retain(|node| !node.health().is_ready());
        let Some(first) = waiting.first() else { return Ok(()) };
        if Instant::now() > deadline {
            let why = format!("{:?}", first.health().checks);
            return Err(
                format!("{} of {} nodes are not ready in time; the first: {why}", waiting.len(), nodes.len()).into()
            );
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
