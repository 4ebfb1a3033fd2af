//! apalis-postgres with what made it fastest: batches of 500, no lock of each task (as in its example), a task of the runtime for each
//! job. For latency: LISTEN/NOTIFY. Finished jobs stay in the table, as it always does.

use std::time::Duration;

use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PostgresStorage};
use jobwright_bench_peers::{Payload, Peer, Result, drive, handled, url};

struct Apalis {
    storage: PostgresStorage<Payload>,
    latency: bool,
}

async fn bench(payload: Payload) -> Result<(), BoxDynError> {
    handled(&payload);
    Ok(())
}

impl Peer for Apalis {
    async fn setup() -> Result<()> {
        PostgresStorage::<()>::setup(&PgPool::connect(&url()).await?).await?;
        Ok(())
    }

    async fn connect(latency: bool) -> Result<Self> {
        let config = Config::default().queue("bench").batch_size(if latency { 100 } else { 500 }).lock_tasks(false);
        let storage = PostgresStorage::new(&PgPool::connect(&url()).await?).with_config(config);
        Ok(Self { storage, latency })
    }

    async fn bulk(&mut self, payloads: Vec<Payload>) -> Result<()> {
        Ok(self.storage.push_bulk(payloads).await?)
    }

    async fn one(&mut self, payload: Payload) -> Result<()> {
        Ok(self.storage.push(payload).await?)
    }

    async fn work(self) -> Result<()> {
        let worker = WorkerBuilder::new("bench");
        if self.latency {
            worker.backend(self.storage.with_pubsub()).parallelize(tokio::spawn).build(bench).run().await?;
        } else {
            let backend = self.storage.poll_with_interval(Duration::from_millis(10));
            worker.backend(backend).parallelize(tokio::spawn).build(bench).run().await?;
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    drive::<Apalis>().await
}
