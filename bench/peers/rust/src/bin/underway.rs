//! underway: one job of one step, 8 at a time, polling each 200 ms beside its LISTEN/NOTIFY (the polls are what starts the 8 loops). It
//! has no call for many jobs of a `Job`, so a batch is 1,000 calls in one transaction. Finished jobs stay in the table.

use jiff::ToSpan as _;
use jobwright_bench_peers::{Payload, Peer, Result, drive, handled, url};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use underway::{Job, To};

struct Underway {
    pool: PgPool,
    job: Job<Payload, ()>,
}

impl Peer for Underway {
    async fn setup() -> Result<()> {
        underway::run_migrations(&PgPool::connect(&url()).await?).await?;
        Self::connect(false).await.map(|_| ())
    }

    async fn connect(_: bool) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(20).connect(&url()).await?;
        let job = Job::builder()
            .step(|_, payload: Payload| async move {
                handled(&payload);
                To::done()
            })
            .name("bench")
            .pool(pool.clone())
            .build()
            .await?;
        Ok(Self { pool, job })
    }

    async fn bulk(&mut self, payloads: Vec<Payload>) -> Result<()> {
        let mut transaction = self.pool.begin().await?;
        for payload in payloads {
            self.job.enqueue_using(&mut *transaction, &payload).await?;
        }
        Ok(transaction.commit().await?)
    }

    async fn one(&mut self, payload: Payload) -> Result<()> {
        self.job.enqueue(&payload).await?;
        Ok(())
    }

    async fn work(self) -> Result<()> {
        let mut worker = self.job.worker();
        worker.set_concurrency_limit(8);
        Ok(worker.run_every(200.milliseconds()).await?)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    drive::<Underway>().await
}
