//! graphile_worker with the settings of its own benchmark (benches/perf_test.rs): 500 jobs at a time, a local queue of 5,000, batched
//! completion. For latency: 4 jobs at a time and no local queue, as a local queue waits.

use std::time::Duration;

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, TaskHandler, Worker, WorkerContext, WorkerOptions, WorkerUtils,
};
use jobwright_bench_peers::{Payload, Peer, Result, drive, handled, url};
use serde::{Deserialize, Serialize};

#[derive(Clone, Deserialize, Serialize)]
#[serde(transparent)]
struct Bench(Payload);

impl TaskHandler for Bench {
    const IDENTIFIER: &'static str = "bench";

    async fn run(self, _: WorkerContext) -> impl IntoTaskHandlerResult {
        handled(&self.0);
        Ok::<(), String>(())
    }
}

struct Graphile {
    worker: Worker,
    utils: WorkerUtils,
}

impl Peer for Graphile {
    async fn setup() -> Result<()> {
        // Making a worker runs the migrations.
        Self::connect(true).await.map(|_| ())
    }

    async fn connect(latency: bool) -> Result<Self> {
        let options = WorkerOptions::default().database_url(&url()).max_pg_conn(10).define_job::<Bench>();
        let options = if latency {
            options.concurrency(4)
        } else {
            options
                .concurrency(500)
                .poll_interval(Duration::from_millis(5))
                .complete_job_batch_delay(Duration::from_millis(5))
                .local_queue(LocalQueueConfig::default().with_size(5000))
        };
        let worker = options.init().await?;
        Ok(Self { utils: worker.create_utils(), worker })
    }

    async fn bulk(&mut self, payloads: Vec<Payload>) -> Result<()> {
        let spec = JobSpec::default();
        let jobs: Vec<_> = payloads.into_iter().map(|payload| (Bench(payload), &spec)).collect();
        self.utils.add_jobs::<Bench>(&jobs).await?;
        Ok(())
    }

    async fn one(&mut self, payload: Payload) -> Result<()> {
        self.utils.add_job(Bench(payload), JobSpec::default()).await?;
        Ok(())
    }

    async fn work(self) -> Result<()> {
        Ok(self.worker.run().await?)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    drive::<Graphile>().await
}
