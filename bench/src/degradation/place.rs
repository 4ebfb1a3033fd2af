//! A schema that stays over several drains, with the rows that make them difficult.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jobwright::{CommandExecutor, Job, NewJob, Outcome};

use crate::Result;
use crate::cases::{PATIENCE, emptied};
use crate::load::{BATCH, KIND, QUEUE, raw_payload, send};
use crate::setup::{Bench, Schema};

/// The queue of jobs that run meanwhile and are not waited for.
pub(super) const BESIDE: &str = "beside";
/// The kind of jobs that are under a limit where there is a rule.
pub(super) const LIMITED: &str = "limited";

pub(super) struct Place {
    pub(super) schema: Schema,
}

/// One drain.
pub(super) struct Drained {
    /// Jobs a second, including those of [`BESIDE`].
    pub(super) rate: f64,
    /// How many jobs of [`BESIDE`] ended meanwhile.
    pub(super) beside: usize,
}

impl Place {
    pub(super) async fn open(bench: &Bench<'_>) -> Result<Self> {
        Ok(Self { schema: bench.schema().await? })
    }

    /// Sends jobs that are to stay, or to be drained.
    pub(super) async fn send(&self, jobs: usize, make: impl Fn(usize, NewJob) -> NewJob) -> Result<()> {
        self.send_kind(KIND, jobs, make).await
    }

    pub(super) async fn send_kind(
        &self,
        kind: &str,
        jobs: usize,
        make: impl Fn(usize, NewJob) -> NewJob,
    ) -> Result<()> {
        let (services, payload) = (self.schema.services().await?, raw_payload()?);
        send(&services, jobs, |n| make(n, NewJob::json(kind, &payload).queue(QUEUE))).await
    }

    /// Measures from before the executor's start until this many jobs outside [`BESIDE`] have ended. The tables are checked afterwards: with a
    /// million rows, a check takes longer than the drain.
    pub(super) async fn drain(&self, bench: &Bench<'_>, jobs: usize) -> Result<Drained> {
        self.schema.vacuum(bench.server.client()).await?;
        bench.server.checkpoint().await;
        // Time for background work of the server after a load.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let services = self.schema.services().await?;
        let ran = Arc::new(AtomicUsize::new(0));
        let counted = |ran: &Arc<AtomicUsize>| {
            let ran = ran.clone();
            move |_: Job| {
                ran.fetch_add(1, Ordering::Relaxed);
                async { Ok(Outcome::Done) }
            }
        };
        let start = Instant::now();
        let executor = CommandExecutor::builder(services)
            .handle(KIND, counted(&ran))
            .handle(LIMITED, counted(&ran))
            .handle(BESIDE, |_: Job| async { Ok(Outcome::Done) })
            .queue(QUEUE, 2 * BATCH)
            .start()
            .await?;
        let deadline = start + PATIENCE;
        // All jobs that should run have run, and all outcomes are recorded.
        let done = loop {
            let stats = executor.stats();
            if stats.failed + stats.refused > 0 || Instant::now() > deadline {
                return Err(format!("the executor did not finish {jobs} jobs: {stats:?}").into());
            }
            if ran.load(Ordering::Relaxed) >= jobs && stats.done >= jobs as u64 {
                break stats.done as usize;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        let elapsed = start.elapsed();
        executor.shutdown(Duration::from_secs(10)).await?;
        emptied(self.left(bench).await?)?;
        Ok(Drained { rate: done as f64 / elapsed.as_secs_f64(), beside: done - jobs })
    }

    /// Returns the jobs of the queue that should have been drained.
    async fn left(&self, bench: &Bench<'_>) -> Result<i64> {
        let sql = format!("select count(*) from {}.jobs where queue = $1 and kind <> $2", self.schema.name);
        Ok(bench.server.client().query_one(&sql, &[&QUEUE, &BESIDE]).await?.get(0))
    }

    pub(super) async fn close(self, bench: &Bench<'_>) -> Result<()> {
        bench.drop(self.schema).await
    }
}
