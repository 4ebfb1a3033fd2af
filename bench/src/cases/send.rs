//! One message a transaction.

use std::time::{Duration, Instant};

use jobwright::MessageServices;

use super::{millis, per_second};
use crate::load::{Make, job, plain, raw_payload};
use crate::report::{Line, Report, Unit};
use crate::setup::{Bench, Schema};
use crate::stats::percentile;
use crate::{Result, limits};

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let jobs = bench.args.count(2000, 200);
    for (name, limit_name, user_row) in [
        ("send alone and commit", "insert a job, commit", false),
        ("send beside a row of the user's", "BEGIN, row, job, COMMIT", true),
    ] {
        let (mut ours, mut limit) = (Vec::new(), Vec::new());
        for _ in 0..bench.args.runs {
            limit.push(bare(bench, jobs, user_row).await?);
            ours.push(contexts(bench, jobs, user_row, plain).await?);
        }
        let rates = |runs: &[Vec<Duration>]| runs.iter().map(|run| per_second(run.len(), run.iter().sum())).collect();
        let at = |runs: &[Vec<Duration>], share| runs.iter().map(|run| waited(run, share)).collect();
        report.add(
            Line::new(format!("{name}, one after the other"), Unit::PerSecond, rates(&ours))
                .limit(limit_name, rates(&limit)),
        );
        for (name, share) in [("… p50", 0.5), ("… p99", 0.99), ("… p99.9", 0.999)] {
            report.add(Line::new(name, Unit::Milliseconds, at(&ours, share)).limit("the same", at(&limit, share)));
        }
    }
    let jobs = bench.args.count(SENDERS * 300, SENDERS * 10);
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.runs {
        limit.push(bare_at_once(bench, jobs).await?);
        ours.push(at_once(bench, jobs).await?);
    }
    report.add(
        Line::new(format!("send alone and commit, {SENDERS} at a time"), Unit::PerSecond, ours)
            .limit(format!("insert a job, commit, on {CONNECTIONS} connections"), limit),
    );
    Ok(())
}

/// Tasks that send one job after the other, each job in a separate context.
const SENDERS: usize = 64;
/// More connections make the bare inserts no faster on a few cores.
const CONNECTIONS: usize = 16;

async fn at_once(bench: &Bench<'_>, jobs: usize) -> Result<f64> {
    let schema = prepared(bench).await?;
    let services = schema.services().await?;
    let start = Instant::now();
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..SENDERS {
        let (services, payload) = (services.clone(), raw_payload()?);
        senders.spawn(async move {
            for _ in 0..jobs / SENDERS {
                let mut context = services.begin();
                context.send(job(&payload))?;
                context.commit().await?;
            }
            Ok::<_, jobwright::Error>(())
        });
    }
    while let Some(sender) = senders.join_next().await {
        sender??;
    }
    let rate = per_second(jobs, start.elapsed());
    drop(services);
    bench.drop(schema).await?;
    Ok(rate)
}

async fn bare_at_once(bench: &Bench<'_>, jobs: usize) -> Result<f64> {
    let schema = prepared(bench).await?;
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(bench.connect().await?);
    }
    let start = Instant::now();
    let each = clients.iter().map(|client| limits::send::alone(client, &schema, jobs / CONNECTIONS));
    futures_util::future::try_join_all(each).await?;
    let rate = per_second(jobs, start.elapsed());
    drop(clients);
    bench.drop(schema).await?;
    Ok(rate)
}

/// Returns the time that this share of them did not exceed, in milliseconds.
pub(crate) fn waited(times: &[Duration], share: f64) -> f64 {
    percentile(&times.iter().map(|time| millis(*time)).collect::<Vec<f64>>(), share)
}

async fn bare(bench: &Bench<'_>, jobs: usize, user_row: bool) -> Result<Vec<Duration>> {
    let schema = prepared(bench).await?;
    let client = bench.connect().await?;
    let times = if user_row {
        limits::send::with_user_row(&client, &schema, jobs).await?
    } else {
        limits::send::alone(&client, &schema, jobs).await?
    };
    bench.drop(schema).await?;
    Ok(times)
}

/// Sends and commits messages one after the other, and returns the time of each.
pub(crate) async fn contexts(bench: &Bench<'_>, jobs: usize, user_row: bool, make: Make) -> Result<Vec<Duration>> {
    let schema = prepared(bench).await?;
    let services = schema.services().await?;
    let times = if user_row {
        with_user_row(&services, &schema, jobs, make).await?
    } else {
        alone(&services, jobs, make).await?
    };
    drop(services);
    bench.drop(schema).await?;
    Ok(times)
}

/// The same without a transaction of the caller.
pub(crate) async fn alone(services: &MessageServices, jobs: usize, make: Make) -> Result<Vec<Duration>> {
    let payload = raw_payload()?;
    let mut times = Vec::with_capacity(jobs);
    for n in 0..jobs {
        let start = Instant::now();
        let mut context = services.begin();
        context.send(make(n, job(&payload)))?;
        context.commit().await?;
        times.push(start.elapsed());
    }
    Ok(times)
}

async fn with_user_row(services: &MessageServices, schema: &Schema, jobs: usize, make: Make) -> Result<Vec<Duration>> {
    let payload = raw_payload()?;
    let insert = format!("insert into {}.effect (n) values ($1)", schema.name);
    let mut times = Vec::with_capacity(jobs);
    for n in 0..jobs {
        let start = Instant::now();
        let mut context = services.begin();
        let transaction = context.transaction().await?;
        let insert = transaction.prepare_cached(&insert).await?;
        transaction.execute(&insert, &[&(n as i64)]).await?;
        context.send(make(n, job(&payload)))?;
        context.commit().await?;
        times.push(start.elapsed());
    }
    Ok(times)
}

/// Creates a schema with a user table beside ours.
pub(super) async fn prepared(bench: &Bench<'_>) -> Result<Schema> {
    let schema = bench.schema().await?;
    let sql = format!("create table {}.effect (n bigint not null)", schema.name);
    bench.server.client().batch_execute(&sql).await?;
    bench.server.checkpoint().await;
    Ok(schema)
}
