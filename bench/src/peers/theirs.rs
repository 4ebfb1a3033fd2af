//! One turn of a peer, in a separate database.

use std::time::{Duration, Instant};

use tokio_postgres::Client;

use super::driver::{Driver, setup};
use super::list::Peer;
use super::sources::Launch;
use super::{Counts, Turn};
use crate::Result;
use crate::cases::{PATIENCE, per_second};
use crate::setup::{Bench, Database};

pub(super) async fn turn(bench: &Bench<'_>, peer: &Peer, launch: &Launch, counts: Counts) -> Result<Turn> {
    let database = bench.database().await?;
    let turn = measure(bench, peer, launch, counts, &database).await;
    bench.drop_database(database).await?;
    turn
}

async fn measure(bench: &Bench<'_>, peer: &Peer, launch: &Launch, counts: Counts, database: &Database) -> Result<Turn> {
    if !database.url.contains("://") {
        return Err("DATABASE_URL is not a URL".into());
    }
    setup(launch, &database.url).await?;
    let client = database.connect().await?;
    // As for our own table: pages younger than a checkpoint need no full page image.
    bench.server.checkpoint().await;
    let before = bench.server.snapshot().await?;
    let bulk = enqueue(launch, database, "bulk", counts.drain).await?;
    let enqueued = before.until(bench.server.snapshot().await?);
    vacuum(&client).await?;

    let drained = drain(bench, peer, launch, database, &client, counts.drain).await?;
    vacuum(&client).await?;

    let mut latency = Driver::start(launch, &database.url, "latency", counts.latency).await?;
    latency.go().await?;
    let times: Vec<(f64, f64)> = latency.done().await?.iter().filter_map(|line| times(line)).collect();
    latency.close().await?;
    if times.len() != counts.latency {
        return Err(format!("{} of {} latencies were said", times.len(), counts.latency).into());
    }
    let single = enqueue(launch, database, "one", counts.single).await?;
    Ok(Turn {
        bulk,
        single,
        drain: per_second(counts.drain, drained.elapsed),
        server_cpu: drained.server_cpu,
        client_cpu: drained.client_cpu,
        wal: enqueued.wal + drained.wal,
        after_commit: times.iter().map(|time| time.0).collect(),
        after_call: times.iter().map(|time| time.1).collect(),
    })
}

/// Returns jobs a second, from GO to DONE.
async fn enqueue(launch: &Launch, database: &Database, mode: &str, jobs: usize) -> Result<f64> {
    let mut driver = Driver::start(launch, &database.url, mode, jobs).await?;
    let start = Instant::now();
    driver.go().await?;
    driver.done().await?;
    let elapsed = start.elapsed();
    driver.close().await?;
    Ok(per_second(jobs, elapsed))
}

struct Drained {
    elapsed: Duration,
    server_cpu: Option<f64>,
    client_cpu: Option<f64>,
    wal: f64,
}

/// Measures from GO, with the workers connected, until the tables have the end of each job.
async fn drain(
    bench: &Bench<'_>,
    peer: &Peer,
    launch: &Launch,
    database: &Database,
    client: &Client,
    jobs: usize,
) -> Result<Drained> {
    let step = (jobs / 200).max(1);
    let mut workers = Vec::new();
    for _ in 0..peer.processes {
        workers.push(Driver::start(launch, &database.url, "work", step).await?);
    }
    let cpu = |workers: &[Driver]| workers.iter().map(Driver::cpu).sum::<Option<f64>>();
    let before = bench.server.snapshot().await?;
    let cpu_before = cpu(&workers);
    let start = Instant::now();
    for worker in &mut workers {
        worker.go().await?;
    }
    watch(&mut workers, client, &peer.count_done(jobs), jobs, step).await?;
    let elapsed = start.elapsed();
    let client_cpu = cpu(&workers).zip(cpu_before).map(|(after, before)| after - before);
    let usage = before.until(bench.server.snapshot().await?);
    for worker in workers {
        worker.close().await?;
    }
    Ok(Drained { elapsed, server_cpu: usage.server_cpu, client_cpu, wal: usage.wal })
}

/// Counts finished jobs in the tables, often only when nearly all handlers have run, since counting costs the server something.
async fn watch(workers: &mut [Driver], client: &Client, count: &str, jobs: usize, step: usize) -> Result<()> {
    let (deadline, mut looked, mut ran, mut done) = (Instant::now() + PATIENCE, Instant::now(), 0, 0_i64);
    while done < jobs as i64 {
        if Instant::now() > deadline {
            return Err(format!("{done} of {jobs} jobs were done after {} s", PATIENCE.as_secs()).into());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
        for worker in &mut *workers {
            ran += worker.ran()?;
        }
        if (ran + workers.len()) * step > jobs || looked.elapsed() > Duration::from_secs(2) {
            done = client.query_one(count, &[]).await?.get(0);
            looked = Instant::now();
        }
    }
    if done == jobs as i64 { Ok(()) } else { Err(format!("{done} of {jobs} jobs were done").into()) }
}

async fn vacuum(client: &Client) -> Result<()> {
    client.batch_execute("vacuum (analyze)").await?;
    // Time for background work of the server after a load.
    tokio::time::sleep(Duration::from_millis(200)).await;
    Ok(())
}

fn times(line: &str) -> Option<(f64, f64)> {
    let (after, before) = line.strip_prefix("LATENCY ")?.split_once(' ')?;
    Some((after.parse().ok()?, before.parse().ok()?))
}
