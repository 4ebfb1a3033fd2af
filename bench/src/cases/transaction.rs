//! Handlers that write through their transaction: each commits separately.

use std::time::{Duration, Instant};

use jobwright::{CommandExecutor, Outcome};
use tokio_postgres::Client;
use uuid::Uuid;

use super::{emptied, per_second, wait_done};
use crate::load::{KIND, QUEUE, fill, left};
use crate::report::{Line, Report, Unit};
use crate::setup::{Bench, Schema};
use crate::{Result, limits};

/// Slots of the queue; more than connections, so that no connection waits for a claim.
pub(super) const CONCURRENCY: usize = 64;

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let jobs = bench.args.count(5000, 500);
    let (mut ours, mut limit, mut connections) = (Vec::new(), Vec::new(), 0);
    for _ in 0..bench.args.runs {
        let schema = prepared(bench, jobs).await?;
        connections = schema.config.max_connections;
        limit.push(bare(bench, schema, jobs).await?);
        ours.push(executor(bench, prepared(bench, jobs).await?, jobs).await?);
    }
    report.add(
        Line::new(format!("drain of {jobs} jobs, a user's row in each"), Unit::PerSecond, ours)
            .limit(format!("BEGIN, row, removal, COMMIT on {connections} connections"), limit),
    );
    Ok(())
}

pub(super) async fn prepared(bench: &Bench<'_>, jobs: usize) -> Result<Schema> {
    let schema = bench.schema().await?;
    let client = bench.connect().await?;
    client.batch_execute(&format!("create table {}.effect (n bigint not null)", schema.name)).await?;
    fill(&bench.server, &client, &schema, jobs).await?;
    Ok(schema)
}

async fn bare(bench: &Bench<'_>, schema: Schema, jobs: usize) -> Result<f64> {
    let clients = limits::drain::connect(bench, schema.config.max_connections).await?;
    let rows = bench.server.client().query(&format!("select id from {} order by seq", schema.table()), &[]).await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    // Dealt out like cards: neighbours are removed at the same time, as by an executor.
    let hands: Vec<Vec<Uuid>> =
        (0..clients.len()).map(|n| ids.iter().copied().skip(n).step_by(clients.len()).collect()).collect();
    let start = Instant::now();
    let work = clients.iter().zip(&hands).map(|(client, ids)| limits::send::handle(client, &schema, ids));
    futures_util::future::try_join_all(work).await?;
    finished(bench, schema, jobs, start).await
}

pub(super) async fn executor(bench: &Bench<'_>, schema: Schema, jobs: usize) -> Result<f64> {
    let services = schema.services().await?;
    let insert = format!("insert into {}.effect (n) values ($1)", schema.name);
    let start = Instant::now();
    let executor = CommandExecutor::builder(services)
        .handle_with(KIND, move |cx| {
            let insert = insert.clone();
            Box::pin(async move {
                let seq = cx.job().seq;
                let transaction = cx.transaction().await?;
                let insert = transaction.prepare_cached(&insert).await?;
                transaction.execute(&insert, &[&seq]).await?;
                Ok(Outcome::Done)
            })
        })
        .queue(QUEUE, CONCURRENCY)
        .start()
        .await?;
    wait_done(&executor, jobs).await?;
    let rate = finished_count(bench.server.client(), &schema, jobs, start).await?;
    executor.shutdown(Duration::from_secs(5)).await?;
    bench.drop(schema).await?;
    Ok(rate)
}

async fn finished(bench: &Bench<'_>, schema: Schema, jobs: usize, start: Instant) -> Result<f64> {
    let rate = finished_count(bench.server.client(), &schema, jobs, start).await?;
    bench.drop(schema).await?;
    Ok(rate)
}

/// Asserts that all jobs are gone, and that each wrote its row once.
pub(super) async fn finished_count(client: &Client, schema: &Schema, jobs: usize, start: Instant) -> Result<f64> {
    emptied(left(client, schema).await?)?;
    let rate = per_second(jobs, start.elapsed());
    let rows: i64 = client.query_one(&format!("select count(*) from {}.effect", schema.name), &[]).await?.get(0);
    if rows == jobs as i64 { Ok(rate) } else { Err(format!("{rows} effects of {jobs} jobs").into()) }
}
