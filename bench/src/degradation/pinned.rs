//! Somebody holds a snapshot, so that nothing that died since can be cleaned up.

use std::time::{Duration, Instant};

use jobwright::{CommandExecutor, Job, MessageServices, Outcome};
use serde_json::json;

use super::PINNED;
use crate::Result;
use crate::cases::{per_second, wait_done};
use crate::load::{BATCH, KIND, QUEUE, SEND_BATCH, job, raw_payload};
use crate::report::{Line, Report, Required, Unit};
use crate::setup::{Bench, Schema};

/// Jobs that are drained again and again: first without, then with a snapshot that is as old as the measurement.
const ROUND: usize = 50_000;

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let time = if bench.args.quick { Duration::from_secs(20) } else { PINNED };
    let schema = bench.schema().await?;
    let services = schema.services().await?;
    let mut free = Vec::new();
    for _ in 0..bench.args.runs {
        free.push(round(&services).await?);
    }
    let holder = bench.connect().await?;
    holder.batch_execute("begin isolation level repeatable read; select txid_current()").await?;
    let start = Instant::now();
    let (mut pinned, mut samples) = (Vec::new(), Vec::new());
    while start.elapsed() < time {
        let rate = round(&services).await?;
        let (dead, bytes) = sizes(bench, &schema).await?;
        samples.push(json!({ "seconds": start.elapsed().as_secs(), "rate": rate, "dead": dead, "bytes": bytes }));
        pinned.push(rate);
    }
    let (dead, bytes) = sizes(bench, &schema).await?;
    holder.batch_execute("rollback").await?;
    drop(services);
    bench.drop(schema).await?;
    report.raw(json!({ "case": "pinned", "samples": samples }));
    let jobs = ROUND * pinned.len();
    // The last ones, when most is dead.
    let last = pinned.split_off(pinned.len().saturating_sub(free.len()));
    free.truncate(last.len());
    report.add(
        Line::new(format!("drain after {} s with a snapshot held", time.as_secs()), Unit::PerSecond, last)
            .limit("the same before it", free)
            .required(Required::Ratio(0.9)),
    );
    report.note(format!(
        "While the snapshot was held, {jobs} jobs came and went; then the job table had {dead} dead rows and {} MiB with its indexes.",
        bytes / 1_048_576
    ));
    Ok(())
}

/// Sends and drains; the rate of the drain.
async fn round(services: &MessageServices) -> Result<f64> {
    let payload = raw_payload()?;
    for _ in 0..ROUND / SEND_BATCH {
        let mut context = services.begin();
        for _ in 0..SEND_BATCH {
            context.send(job(&payload))?;
        }
        context.commit().await?;
    }
    let start = Instant::now();
    let executor = CommandExecutor::builder(services.clone())
        .handle(KIND, |_: Job| async { Ok(Outcome::Done) })
        .queue(QUEUE, 2 * BATCH)
        .start()
        .await?;
    wait_done(&executor, ROUND).await?;
    let rate = per_second(ROUND, start.elapsed());
    executor.shutdown(Duration::from_secs(5)).await?;
    Ok(rate)
}

/// Dead rows as the server believes, and bytes of the table with its indexes.
async fn sizes(bench: &Bench<'_>, schema: &Schema) -> Result<(i64, i64)> {
    let sql = "select n_dead_tup, pg_total_relation_size(relid) from pg_stat_user_tables where schemaname = $1 and relname = 'job'";
    let row = bench.server.client().query_one(sql, &[&schema.name]).await?;
    Ok((row.get(0), row.get(1)))
}
