//! The allocations that a job costs this process.

use std::alloc::System;
use std::time::Duration;

use jobwright::{CommandExecutor, Job, Outcome};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use super::Values;
use crate::Result;
use crate::cases::{emptied, wait_done};
use crate::load::{BATCH, KIND, QUEUE, fill, left};
use crate::setup::Bench;

const JOBS: usize = 20_000;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn allocations() -> (f64, f64) {
    let stats = ALLOCATOR.stats();
    ((stats.allocations + stats.reallocations) as f64, stats.bytes_allocated as f64)
}

/// Drains a queue twice, the second time with twice as many jobs. The difference is what the jobs cost, without the start of an executor.
pub(super) async fn run(bench: &Bench<'_>) -> Result<Values> {
    let (calls, bytes) = drained(bench, JOBS).await?;
    let (calls_then, bytes_then) = drained(bench, 2 * JOBS).await?;
    let jobs = JOBS as f64;
    Ok(vec![
        ("drain: allocations for a job", (calls_then - calls) / jobs),
        ("drain: bytes allocated for a job", (bytes_then - bytes) / jobs),
    ])
}

/// Returns the allocations of a new executor that runs this many jobs: how many, and how many bytes.
async fn drained(bench: &Bench<'_>, jobs: usize) -> Result<(f64, f64)> {
    let schema = bench.schema().await?;
    let loader = bench.connect().await?;
    fill(&bench.server, &loader, &schema, jobs).await?;
    drop(loader);
    let services = schema.services().await?;
    let (calls, bytes) = allocations();
    let executor = CommandExecutor::builder(services)
        .handle(KIND, |_: Job| async { Ok(Outcome::Done) })
        .queue(QUEUE, 2 * BATCH)
        .start()
        .await?;
    wait_done(&executor, jobs).await?;
    let (calls_then, bytes_then) = allocations();
    emptied(left(bench.server.client(), &schema).await?)?;
    executor.shutdown(Duration::from_secs(5)).await?;
    bench.drop(schema).await?;
    Ok((calls_then - calls, bytes_then - bytes))
}
