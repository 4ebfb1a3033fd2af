//! Transactions of sqlx beside those of our own driver, in the same run: one send beside a row of the user's, and handlers that write a row.

use std::time::{Duration, Instant};

use jobwright::sqlx_0_8::Sqlx;
use jobwright::{CommandExecutor, MessageServices, Outcome};
use sqlx::postgres::PgPoolOptions;

use super::{per_second, send, transaction, wait_done};
use crate::Result;
use crate::load::{KIND, QUEUE, job, plain, raw_payload};
use crate::report::{Line, Report, Required, Unit};
use crate::setup::{Bench, Schema};

/// What users of sqlx may lose at most. It sends a statement more for each commit, and asks a connection whether it lives before it lends it.
const SEND: f64 = 0.85;
const DRAIN: f64 = 0.8;

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let (sends, jobs) = (bench.args.count(2000, 200), bench.args.count(5000, 500));
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.runs {
        limit.push(rate(&send::contexts(bench, sends, true, plain).await?));
        ours.push(rate(&with_user_row(bench, sends).await?));
    }
    report.add(
        Line::new("send beside a row of the user's, by sqlx", Unit::PerSecond, ours)
            .limit("the same by tokio-postgres", limit)
            .required(Required::Ratio(SEND)),
    );
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.runs {
        limit.push(transaction::executor(bench, transaction::prepared(bench, jobs).await?, jobs).await?);
        ours.push(drain(bench, transaction::prepared(bench, jobs).await?, jobs).await?);
    }
    report.add(
        Line::new(format!("drain of {jobs} jobs, a user's row in each, by sqlx"), Unit::PerSecond, ours)
            .limit("the same by tokio-postgres", limit)
            .required(Required::Ratio(DRAIN)),
    );
    Ok(())
}

fn rate(times: &[Duration]) -> f64 {
    per_second(times.len(), times.iter().sum())
}

/// As many connections as contexts of the other driver have, and all else as sqlx has it.
async fn services(schema: &Schema) -> Result<MessageServices<Sqlx>> {
    let connections = u32::try_from(schema.config.max_connections)?;
    let pool = PgPoolOptions::new().max_connections(connections).connect(schema.config.url.expose()).await?;
    Ok(MessageServices::sqlx_0_8(pool, &schema.config).await?)
}

async fn with_user_row(bench: &Bench<'_>, jobs: usize) -> Result<Vec<Duration>> {
    let schema = send::prepared(bench).await?;
    let services = services(&schema).await?;
    let payload = raw_payload()?;
    let insert = format!("insert into {}.effect (n) values ($1)", schema.name);
    let mut times = Vec::with_capacity(jobs);
    for n in 0..jobs {
        let start = Instant::now();
        let mut context = services.begin();
        sqlx::query(&insert).bind(n as i64).execute(&mut **context.transaction().await?).await?;
        context.send(job(&payload))?;
        context.commit().await?;
        times.push(start.elapsed());
    }
    services.store().pool().close().await;
    drop(services);
    bench.drop(schema).await?;
    Ok(times)
}

async fn drain(bench: &Bench<'_>, schema: Schema, jobs: usize) -> Result<f64> {
    let services = services(&schema).await?;
    let pool = services.store().pool().clone();
    let insert = format!("insert into {}.effect (n) values ($1)", schema.name);
    let start = Instant::now();
    let executor = CommandExecutor::builder(services)
        .handle_with(KIND, move |cx| {
            let insert = insert.clone();
            Box::pin(async move {
                let seq = cx.job().seq;
                sqlx::query(&insert).bind(seq).execute(&mut **cx.transaction().await?).await?;
                Ok(Outcome::Done)
            })
        })
        .queue(QUEUE, transaction::CONCURRENCY)
        .start()
        .await?;
    wait_done(&executor, jobs).await?;
    let rate = transaction::finished_count(bench.server.client(), &schema, jobs, start).await?;
    executor.shutdown(Duration::from_secs(5)).await?;
    pool.close().await;
    bench.drop(schema).await?;
    Ok(rate)
}
