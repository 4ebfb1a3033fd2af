//! awa with the throughput shape of its documentation: its queue storage, 1,024 jobs at a time, no deadline for each job (heartbeats
//! stay), batches enqueued with COPY. For latency: 4 jobs at a time. Finished jobs stay until their segment is pruned.
//!
//! Groups are ordering keys, over 8 shards of the queue. They promise less than a group of ours: jobs of a key are claimed in order, but
//! may run beside each other.

use std::time::Duration;

use awa::model::InsertParams;
use awa::{
    Client, InsertOpts, JobArgs, JobResult, QueueConfig, QueueStorage, QueueStorageConfig, insert_with, migrations,
};
use jobwright_bench_peers::{Payload, Peer, Result, drive, handled, next_group, url};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

#[derive(Serialize, Deserialize, JobArgs)]
struct Bench {
    #[serde(flatten)]
    payload: Payload,
}

struct Awa {
    pool: PgPool,
    storage: QueueStorage,
    client: Client,
}

fn options() -> InsertOpts {
    let ordering_key = next_group().map(String::into_bytes);
    InsertOpts { queue: "bench".to_owned(), ordering_key, ..InsertOpts::default() }
}

impl Peer for Awa {
    async fn setup() -> Result<()> {
        let pool = PgPool::connect(&url()).await?;
        migrations::run(&pool).await?;
        let storage = QueueStorage::new(QueueStorageConfig::default())?;
        storage.prepare_schema(&pool).await?;
        // What the first worker does on a new database; here jobs are enqueued before there is one.
        let fresh: bool = sqlx::query_scalar("select awa.storage_auto_finalize_if_fresh($1)")
            .bind(storage.schema())
            .fetch_one(&pool)
            .await?;
        if !fresh {
            return Err("the database is not fresh".into());
        }
        if next_group().is_some() {
            // With one shard, keys mean nothing.
            let sql = "insert into awa.queue_meta (queue, enqueue_shards) values ('bench', 8) \
                       on conflict (queue) do update set enqueue_shards = excluded.enqueue_shards";
            sqlx::query(sql).execute(&pool).await?;
        }
        Ok(())
    }

    async fn connect(latency: bool) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(24).connect(&url()).await?;
        let config = QueueConfig {
            max_workers: if latency { 4 } else { 1024 },
            poll_interval: Duration::from_millis(50),
            deadline_duration: Duration::ZERO,
            ..QueueConfig::default()
        };
        let client = Client::builder(pool.clone())
            .queue("bench", config)
            .register::<Bench, _, _>(|job, _| async move {
                handled(&job.payload);
                Ok(JobResult::Completed)
            })
            .build()?;
        Ok(Self { pool, storage: QueueStorage::new(QueueStorageConfig::default())?, client })
    }

    async fn bulk(&mut self, payloads: Vec<Payload>) -> Result<()> {
        let jobs = payloads
            .into_iter()
            .map(|payload| {
                let args = serde_json::to_value(Bench { payload })?;
                Ok(InsertParams { kind: Bench::kind().to_owned(), args, opts: options() })
            })
            .collect::<Result<Vec<_>>>()?;
        self.storage.enqueue_params_copy(&self.pool, &jobs).await?;
        Ok(())
    }

    async fn one(&mut self, payload: Payload) -> Result<()> {
        insert_with(&self.pool, &Bench { payload }, options()).await?;
        Ok(())
    }

    async fn work(self) -> Result<()> {
        self.client.start().await?;
        std::future::pending().await
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    drive::<Awa>().await
}
