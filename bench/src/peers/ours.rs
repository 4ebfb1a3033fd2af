//! One turn of ours, with the same counts.

use std::time::{Duration, Instant};

use jobwright::{CommandExecutor, HistoryConfig, Job, Keep, Outcome};

use super::{Counts, Turn};
use crate::Result;
use crate::cases::{emptied, latency, per_second, send, wait_done};
use crate::load::{self, BATCH, KIND, QUEUE, job, left_in_queue, raw_payload};
use crate::server::Usage;
use crate::setup::{Bench, Schema};

pub(super) struct Drained {
    pub(super) rate: f64,
    bulk: f64,
    usage: Usage,
    wal: f64,
}

pub(super) async fn turn(bench: &Bench<'_>, counts: Counts) -> Result<Turn> {
    let drained = drain(bench, counts, Keep::Off).await?;
    // The sender has separate connections, like a program elsewhere.
    let times = latency::measure(bench, counts.latency, false, counts.make).await?;
    let singles = send::contexts(bench, counts.single, false, counts.make).await?;
    Ok(Turn {
        bulk: drained.bulk,
        single: per_second(singles.len(), singles.iter().sum()),
        drain: drained.rate,
        server_cpu: drained.usage.server_cpu,
        client_cpu: drained.usage.own_cpu,
        wal: drained.wal,
        after_commit: times.after_commit,
        after_call: times.after_send,
    })
}

/// Sends the jobs 1,000 in a context; then measures from before the executor's start to an empty table.
pub(super) async fn drain(bench: &Bench<'_>, counts: Counts, keep: Keep) -> Result<Drained> {
    let jobs = counts.drain;
    let mut schema = bench.schema().await?;
    schema.config.history = HistoryConfig::default().keep(keep);
    bench.server.checkpoint().await;
    bench.server.settle().await?;
    let before = bench.server.snapshot().await?;
    let bulk = sent(&schema, counts).await?;
    let enqueued = before.until(bench.server.snapshot().await?);
    bench.server.settle().await?;
    schema.vacuum(bench.server.client()).await?;
    // Time for background work of the server after a load.
    tokio::time::sleep(Duration::from_millis(200)).await;

    let services = schema.services().await?;
    let before = bench.server.snapshot().await?;
    let start = Instant::now();
    let executor = CommandExecutor::builder(services)
        .handle(KIND, |_: Job| async { Ok(Outcome::Done) })
        .queue(QUEUE, 2 * BATCH)
        .start()
        .await?;
    wait_done(&executor, jobs).await?;
    emptied(left_in_queue(bench.server.client(), &schema, QUEUE).await?)?;
    let rate = per_second(jobs, start.elapsed());
    let usage = before.until(bench.server.snapshot().await?);
    executor.shutdown(Duration::from_secs(5)).await?;
    bench.drop(schema).await?;
    Ok(Drained { rate, bulk, usage, wal: enqueued.wal + usage.wal })
}

async fn sent(schema: &Schema, counts: Counts) -> Result<f64> {
    let services = schema.services().await?;
    let payload = raw_payload()?;
    let start = Instant::now();
    load::send(&services, counts.drain, |n| (counts.make)(n, job(&payload))).await?;
    Ok(per_second(counts.drain, start.elapsed()))
}
