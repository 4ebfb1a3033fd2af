//! Sending in batches.

use std::time::Instant;

use super::per_second;
use crate::load::{SEND_BATCH, job, left, raw_payload};
use crate::report::{Line, Report, Unit};
use crate::setup::{Bench, Schema};
use crate::{Result, limits};

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let jobs = bench.args.count(100_000, 10_000);
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.runs {
        limit.push(bare(bench, jobs).await?);
        ours.push(contexts(bench, jobs).await?);
    }
    report.add(
        Line::new(format!("send of {jobs} jobs, {SEND_BATCH} in a context"), Unit::PerSecond, ours)
            .limit(format!("insert of {SEND_BATCH} rows from arrays"), limit),
    );
    Ok(())
}

async fn bare(bench: &Bench<'_>, jobs: usize) -> Result<f64> {
    let schema = bench.schema().await?;
    let client = bench.connect().await?;
    bench.server.checkpoint().await;
    let start = Instant::now();
    limits::send::batches(&client, &schema, jobs).await?;
    finished(bench, schema, jobs, start).await
}

async fn contexts(bench: &Bench<'_>, jobs: usize) -> Result<f64> {
    let schema = bench.schema().await?;
    let services = schema.services().await?;
    let payload = raw_payload()?;
    bench.server.checkpoint().await;
    let start = Instant::now();
    for _ in 0..jobs / SEND_BATCH {
        let mut context = services.begin();
        for _ in 0..SEND_BATCH {
            context.send(job(&payload))?;
        }
        context.commit().await?;
    }
    finished(bench, schema, jobs, start).await
}

async fn finished(bench: &Bench<'_>, schema: Schema, jobs: usize, start: Instant) -> Result<f64> {
    let rate = per_second(jobs, start.elapsed());
    let stored = left(bench.server.client(), &schema).await?;
    if stored != jobs as i64 {
        return Err(format!("the table has {stored} jobs instead of {jobs}").into());
    }
    bench.drop(schema).await?;
    Ok(rate)
}
