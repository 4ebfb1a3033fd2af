//! The measured jobs: all alike, 100 bytes of JSON each.

use std::time::Duration;

use jobwright::{MessageServices, NewJob};
use serde_json::value::RawValue;
use tokio_postgres::Client;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::Result;
use crate::server::Server;
use crate::setup::Schema;

pub(crate) const KIND: &str = "bench";
pub(crate) const QUEUE: &str = "bench";
/// Jobs claimed and removed with one statement, and slots of the queue.
pub(crate) const BATCH: usize = 500;
/// Jobs sent with one statement.
pub(crate) const SEND_BATCH: usize = 1000;

/// A JSON object of exactly 100 bytes.
pub(crate) fn payload() -> String {
    format!("{{\"text\":\"{}\"}}", "x".repeat(89))
}

/// The same job as a message.
pub(crate) fn job(payload: &RawValue) -> NewJob {
    NewJob::json(KIND, payload).queue(QUEUE)
}

/// Configures the job of this number before it is sent.
pub(crate) type Make = fn(usize, NewJob) -> NewJob;

pub(crate) fn plain(_: usize, job: NewJob) -> NewJob {
    job
}

/// The number of groups that share the jobs in turn.
pub(crate) const GROUPS: usize = 1_000;

pub(crate) fn grouped(n: usize, job: NewJob) -> NewJob {
    job.exclusive(format!("group-{}", n % GROUPS))
}

pub(crate) fn raw_payload() -> Result<Box<RawValue>> {
    Ok(RawValue::from_string(payload())?)
}

/// Sends this many jobs as programs do, 1,000 in a context.
pub(crate) async fn send(services: &MessageServices, jobs: usize, make: impl Fn(usize) -> NewJob) -> Result<()> {
    for first in (0..jobs).step_by(SEND_BATCH) {
        let mut context = services.begin();
        for n in first..jobs.min(first + SEND_BATCH) {
            context.send(make(n))?;
        }
        context.commit().await?;
    }
    Ok(())
}

/// Inserts many jobs with one bare statement: the columns that a send fills, from arrays.
pub(crate) struct Inserter {
    sql: String,
    kinds: Vec<&'static str>,
    queues: Vec<&'static str>,
    ranks: Vec<i16>,
    attempts: Vec<i32>,
    payloads: Vec<String>,
}

impl Inserter {
    pub(crate) fn new(schema: &Schema, batch: usize) -> Self {
        Self {
            sql: format!(
                "insert into {} (id, kind, queue, rank, max_attempts, payload) select id, kind, queue, rank, attempts, body::jsonb \
                 from unnest($1::uuid[], $2::text[], $3::text[], $4::int2[], $5::int4[], $6::text[]) \
                 as m(id, kind, queue, rank, attempts, body)",
                schema.table()
            ),
            kinds: vec![KIND; batch],
            queues: vec![QUEUE; batch],
            ranks: vec![0; batch],
            attempts: vec![10; batch],
            payloads: vec![payload(); batch],
        }
    }

    pub(crate) async fn prepare(&self, client: &Client) -> Result<tokio_postgres::Statement> {
        let types = [
            Type::UUID_ARRAY,
            Type::TEXT_ARRAY,
            Type::TEXT_ARRAY,
            Type::INT2_ARRAY,
            Type::INT4_ARRAY,
            Type::TEXT_ARRAY,
        ];
        Ok(client.prepare_typed(&self.sql, &types).await?)
    }

    pub(crate) async fn insert(&self, client: &Client, statement: &tokio_postgres::Statement) -> Result<()> {
        let ids: Vec<Uuid> = self.kinds.iter().map(|_| Uuid::now_v7()).collect();
        client
            .execute(statement, &[&ids, &self.kinds, &self.queues, &self.ranks, &self.attempts, &self.payloads])
            .await?;
        Ok(())
    }
}

/// Fills a fresh job table and leaves it as after an idle while.
/// The checkpoint comes before the rows: their pages then count as new, so that the measured work writes no full page images, neither for the limit
/// nor for ours. Jobs of a busy queue are younger than a checkpoint, too.
pub(crate) async fn fill(server: &Server, client: &Client, schema: &Schema, jobs: usize) -> Result<()> {
    server.checkpoint().await;
    let mut missing = jobs;
    while missing > 0 {
        let batch = Inserter::new(schema, missing.min(SEND_BATCH));
        batch.insert(client, &batch.prepare(client).await?).await?;
        missing -= missing.min(SEND_BATCH);
    }
    client.batch_execute(&format!("vacuum (analyze) {}", schema.table())).await?;
    // Time for background work of the server after a load.
    tokio::time::sleep(Duration::from_millis(200)).await;
    Ok(())
}

/// Returns how many rows are left, which proves that a drain is over.
pub(crate) async fn left(client: &Client, schema: &Schema) -> Result<i64> {
    Ok(client.query_one(&format!("select count(*) from {}", schema.table()), &[]).await?.get(0))
}

/// The same for jobs of a queue, in all states.
pub(crate) async fn left_in_queue(client: &Client, schema: &Schema, queue: &str) -> Result<i64> {
    let sql = format!("select count(*) from {}.jobs where queue = $1", schema.name);
    Ok(client.query_one(&sql, &[&queue]).await?.get(0))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_payload_has_100_bytes() {
        assert_eq!(super::payload().len(), 100);
        assert!(super::raw_payload().is_ok());
    }
}
