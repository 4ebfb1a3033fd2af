//! One drain, with a difficulty or without.

use std::time::{Duration, Instant};

use jobwright::{CommandExecutor, Job, Outcome};

use crate::Result;
use crate::cases::{emptied, per_second, wait_done};
use crate::load::{BATCH, KIND, QUEUE, payload};
use crate::setup::{Bench, Schema};

#[derive(Clone, Copy, Debug)]
pub(super) enum Payload {
    /// 100 bytes.
    Short,
    /// This many bytes that do not compress to nothing.
    Long(usize),
}

impl Payload {
    pub(super) fn name(self) -> String {
        match self {
            Self::Short => "100 B".to_owned(),
            Self::Long(bytes) if bytes < 1_000_000 => format!("{} kB", bytes / 1000),
            Self::Long(bytes) => format!("{} MB", bytes / 1_000_000),
        }
    }

    /// Returns an SQL expression.
    fn sql(self) -> String {
        match self {
            Self::Short => format!("'{}'::jsonb", payload()),
            Self::Long(bytes) => format!(
                "jsonb_build_object('text', (select string_agg(md5(random()::text || k), '') from generate_series(1, {}) k))",
                bytes / 32
            ),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    pub(super) jobs: usize,
    /// Rows that another node owns, in front of the others.
    pub(super) owned: usize,
    pub(super) queues: usize,
    pub(super) payload: Payload,
}

impl Drain {
    /// Returns jobs a second, from before the executor's start until no job is left.
    pub(super) async fn run(&self, bench: &Bench<'_>) -> Result<f64> {
        self.run_by(bench, bench.url()).await
    }

    /// The same, with an executor that reaches the database by this URL.
    pub(super) async fn run_by(&self, bench: &Bench<'_>, url: &str) -> Result<f64> {
        let schema = bench.schema().await?;
        bench.server.checkpoint().await;
        self.fill(bench, &schema).await?;
        let start = Instant::now();
        let services = schema.services_by(url).await?;
        let mut builder = CommandExecutor::builder(services).handle(KIND, |_: Job| async { Ok(Outcome::Done) });
        for n in 0..self.queues {
            builder = builder.queue(queue(n), (2 * BATCH / self.queues).max(16));
        }
        let executor = builder.start().await?;
        wait_done(&executor, self.jobs).await?;
        emptied(left(bench, &schema).await?)?;
        let rate = per_second(self.jobs, start.elapsed());
        executor.shutdown(Duration::from_secs(5)).await?;
        bench.drop(schema).await?;
        Ok(rate)
    }

    async fn fill(&self, bench: &Bench<'_>, schema: &Schema) -> Result<()> {
        let client = bench.server.client();
        if self.owned > 0 {
            // Owned by a node that lives for as long as this takes.
            let sql = format!(
                "with owner as (insert into {0}.node (id, name, host, pid, lease, expires_at) \
                                values (1, 'busy', 'elsewhere', 1, '1 hour', clock_timestamp() + interval '1 hour') returning id) \
                 insert into {0}.job (id, kind, queue, rank, max_attempts, payload, lock_owner, claimed_at, version, attempt) \
                 select gen_random_uuid(), '{KIND}', '{QUEUE}', 0, 10, '{1}'::jsonb, owner.id, now(), 1, 1 \
                 from owner, generate_series(1, {2})",
                schema.name,
                payload(),
                self.owned
            );
            client.batch_execute(&sql).await?;
        }
        let sql = format!(
            "insert into {0} (id, kind, queue, rank, max_attempts, payload) \
             select gen_random_uuid(), '{KIND}', case when n % {1} = 0 then '{QUEUE}' else '{QUEUE}-' || n % {1} end, 0, 10, {2} \
             from generate_series(1, {3}) n",
            schema.table(),
            self.queues,
            self.payload.sql(),
            self.jobs
        );
        client.batch_execute(&sql).await?;
        client.batch_execute(&format!("vacuum (analyze) {}", schema.table())).await?;
        // Time for background work of the server after a load.
        tokio::time::sleep(Duration::from_millis(200)).await;
        Ok(())
    }
}

fn queue(n: usize) -> String {
    if n == 0 { QUEUE.to_owned() } else { format!("{QUEUE}-{n}") }
}

async fn left(bench: &Bench<'_>, schema: &Schema) -> Result<i64> {
    // Rows that another node owns stay.
    let sql = format!(
        "select count(*) from {0}.job j where not exists (select from {0}.node n where n.id = j.lock_owner and n.name = 'busy')",
        schema.name
    );
    Ok(bench.server.client().query_one(&sql, &[]).await?.get(0))
}
