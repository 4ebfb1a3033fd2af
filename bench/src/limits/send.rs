//! Inserts, and commits one by one.

use std::time::{Duration, Instant};

use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use crate::Result;
use crate::load::{Inserter, KIND, QUEUE, SEND_BATCH, payload};
use crate::setup::Schema;

/// Inserts in batches, each its own transaction.
pub(crate) async fn batches(client: &Client, schema: &Schema, jobs: usize) -> Result<()> {
    let batches = Inserter::new(schema, SEND_BATCH);
    let statement = batches.prepare(client).await?;
    for _ in 0..jobs / SEND_BATCH {
        batches.insert(client, &statement).await?;
    }
    Ok(())
}

/// Inserts one job, in its own transaction unless one is open.
pub(crate) struct One {
    statement: Statement,
    payload: String,
}

impl One {
    pub(crate) async fn prepare(client: &Client, schema: &Schema) -> Result<Self> {
        let sql = format!(
            "insert into {} (id, kind, queue, rank, max_attempts, payload) values ($1, $2, $3, $4, $5, $6::text::jsonb)",
            schema.table()
        );
        Ok(Self { statement: client.prepare(&sql).await?, payload: payload() })
    }

    pub(crate) async fn insert(&self, client: &Client) -> Result<()> {
        client.execute(&self.statement, &[&Uuid::now_v7(), &KIND, &QUEUE, &0_i16, &10_i32, &self.payload]).await?;
        Ok(())
    }
}

/// Inserts and commits one after the other, and returns the time of each.
pub(crate) async fn alone(client: &Client, schema: &Schema, jobs: usize) -> Result<Vec<Duration>> {
    let one = One::prepare(client, schema).await?;
    let mut times = Vec::with_capacity(jobs);
    for _ in 0..jobs {
        let start = Instant::now();
        one.insert(client).await?;
        times.push(start.elapsed());
    }
    Ok(times)
}

/// BEGIN, a user's row, a job, COMMIT: one after the other.
pub(crate) async fn with_user_row(client: &Client, schema: &Schema, jobs: usize) -> Result<Vec<Duration>> {
    let one = One::prepare(client, schema).await?;
    let user = client.prepare(&format!("insert into {}.effect (n) values ($1)", schema.name)).await?;
    let mut times = Vec::with_capacity(jobs);
    for n in 0..jobs {
        let start = Instant::now();
        client.batch_execute("begin").await?;
        client.execute(&user, &[&(n as i64)]).await?;
        one.insert(client).await?;
        client.batch_execute("commit").await?;
        times.push(start.elapsed());
    }
    Ok(times)
}

/// For each job of a list: BEGIN, a user's row, the job's removal, COMMIT.
pub(crate) async fn handle(client: &Client, schema: &Schema, ids: &[Uuid]) -> Result<()> {
    let user = client.prepare(&format!("insert into {}.effect (n) values ($1)", schema.name)).await?;
    let remove = client.prepare(&format!("delete from {} where id = $1", schema.table())).await?;
    for (n, id) in ids.iter().enumerate() {
        client.batch_execute("begin").await?;
        client.execute(&user, &[&(n as i64)]).await?;
        client.execute(&remove, &[id]).await?;
        client.batch_execute("commit").await?;
    }
    Ok(())
}
