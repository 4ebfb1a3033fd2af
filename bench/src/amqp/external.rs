//! Jobs run by an external worker: handed out whole, answered with `done`, removed.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use jobwright::{CommandExecutor, ExternalQueue};
use lapin::BasicProperties;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};

use super::{Site, bare, url};
use crate::Result;
use crate::cases::{PATIENCE, per_second};
use crate::load::{QUEUE, fill, left};
use crate::report::{Line, Report, Unit};
use crate::setup::{Bench, Schema};

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let jobs = bench.args.count(20_000, 2_000);
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.runs {
        limit.push(bare::loop_rate(&url()?, &format!("jobwright_bench_{}.loop", std::process::id()), jobs).await?);
        ours.push(measure(bench, jobs).await?);
    }
    report.add(
        Line::new(format!("drain of {jobs} jobs by an external worker"), Unit::PerSecond, ours)
            .limit("publish with confirms, consume, ack", limit),
    );
    Ok(())
}

async fn measure(bench: &Bench<'_>, jobs: usize) -> Result<f64> {
    let site = Site::open(bench, 2000).await?;
    let loader = bench.connect().await?;
    fill(&bench.server, &loader, &site.schema, jobs).await?;
    let services = site.services(true).await?;
    if let Some(broker) = services.broker() {
        broker.apply(&[], &[QUEUE.to_owned()]).await?;
    }
    let worker = tokio::spawn(work(site.config.prefix.clone()));
    let start = Instant::now();
    let executor = CommandExecutor::builder(services.clone())
        .external_queue(ExternalQueue::new(QUEUE).depth(2000))
        .start()
        .await?;
    while executor.stats().reported < jobs as u64 {
        if start.elapsed() > PATIENCE || worker.is_finished() {
            return Err(format!("the external worker did not finish {jobs} jobs: {:?}", executor.stats()).into());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let rate = per_second(jobs, start.elapsed());
    finished(bench, &site.schema).await?;
    worker.abort();
    site.close(Some(executor), vec![services]).await?;
    Ok(rate)
}

async fn finished(bench: &Bench<'_>, schema: &Schema) -> Result<()> {
    let out: i64 = bench
        .server
        .client()
        .query_one(&format!("select count(*) from {}.external_job", schema.name), &[])
        .await?
        .get(0);
    crate::cases::emptied(out + left(bench.server.client(), schema).await?)
}

/// Runs an external worker in Rust that answers each job with `done`.
async fn work(prefix: String) -> Result<()> {
    let names = jobwright::internal::Names::new(prefix);
    let connection = bare::connect(&url()?).await?;
    let (jobs, replies) = (connection.create_channel().await?, connection.create_channel().await?);
    jobs.basic_qos(1000, BasicQosOptions::default()).await?;
    let queue = ShortString::from(names.external(QUEUE));
    let mut consumer = jobs
        .basic_consume(queue, ShortString::from("bench"), BasicConsumeOptions::default(), FieldTable::default())
        .await?;
    let reply = ShortString::from(names.reply());
    let mut n = 0_u64;
    while let Some(delivery) = consumer.next().await {
        let delivery = delivery?;
        let mut headers = FieldTable::default();
        for name in ["jobId", "version", "reportToken"] {
            let given = delivery.properties.headers().as_ref().and_then(|headers| headers.inner().get(name)).cloned();
            headers.insert(ShortString::from(name), given.unwrap_or(AMQPValue::Void));
        }
        let properties =
            BasicProperties::default().with_delivery_mode(2).with_type(ShortString::from("done")).with_headers(headers);
        // Without confirms: the rate of reports is not measured, and a lost one would end the run with an error.
        replies
            .basic_publish(ShortString::from(""), reply.clone(), BasicPublishOptions::default(), b"", properties)
            .await?;
        n += 1;
        if n.is_multiple_of(100) || n < 100 {
            jobs.basic_ack(delivery.delivery_tag, BasicAckOptions { multiple: true }).await?;
        }
    }
    Ok(())
}
