//! One job at a time, until its delivery is confirmed, in turn with the lowest possible cost: a bare insert and commit, then a publish and its
//! confirm. Both are consumed meanwhile.

use std::time::{Duration, Instant};

use jobwright::{CommandExecutor, Job, Outcome};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{BasicProperties, Confirmation};

use super::{Site, bare, opened, url};
use crate::Result;
use crate::cases::millis;
use crate::limits::send::One;
use crate::load::{KIND, QUEUE, job, raw_payload};
use crate::report::{Line, Report, Unit};
use crate::setup::{Bench, Schema};
use crate::stats::percentile;

/// 50 of each a second.
const PACE: Duration = Duration::from_millis(10);

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let jobs = bench.args.count(500, 100);
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.runs {
        let (own, bare) = measure(bench, jobs).await?;
        ours.push(own);
        limit.push(bare);
    }
    for (name, share) in [("send, commit and confirm of its delivery, p50", 0.5), ("… p99", 0.99)] {
        let of = |runs: &[Vec<f64>]| runs.iter().map(|run| percentile(run, share)).collect();
        report.add(
            Line::new(name, Unit::Milliseconds, of(&ours))
                .limit("bare insert, commit, publish and confirm", of(&limit)),
        );
    }
    Ok(())
}

async fn measure(bench: &Bench<'_>, jobs: usize) -> Result<(Vec<f64>, Vec<f64>)> {
    let site = Site::open(bench, 10_000).await?;
    let (sender, worker) = (site.services(true).await?, site.services(true).await?);
    let executor = CommandExecutor::builder(worker.clone())
        .handle(KIND, |_: Job| async { Ok(Outcome::Done) })
        .queue(QUEUE, 100)
        .start()
        .await?;
    opened(&sender).await?;
    let payload = raw_payload()?;

    // Apart from the job table, so that no executor sees these rows.
    let aside = format!("{}_aside", site.schema.name);
    let client = bench.connect().await?;
    client
        .batch_execute(&format!(
            "create schema {aside}; create table {aside}.job (like {} including all)",
            site.schema.table()
        ))
        .await?;
    let elsewhere = Schema { name: aside.clone(), config: site.schema.config.clone() };
    let one = One::prepare(&client, &elsewhere).await?;
    let (to, from) = (bare::connect(&url()?).await?, bare::connect(&url()?).await?);
    let (publishing, consuming) = (to.create_channel().await?, from.create_channel().await?);
    let queue = format!("{aside}.bare");
    bare::declare(&publishing, &queue).await?;
    publishing.confirm_select(ConfirmSelectOptions::default()).await?;
    let consumed = queue.clone();
    let consumer = tokio::spawn(async move { bare::consume_each(&consuming, &consumed).await });

    let (mut ours, mut bare) = (Vec::with_capacity(jobs), Vec::with_capacity(jobs));
    let body = crate::load::payload();
    // The first ones are not measured: they create connections and prepared statements of both sides.
    for n in 0..jobs + 20 {
        tokio::time::sleep(PACE).await;
        let before = Instant::now();
        one.insert(&client).await?;
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let properties = BasicProperties::default().with_delivery_mode(2);
        let confirm = publishing
            .basic_publish(
                ShortString::from(""),
                ShortString::from(queue.as_str()),
                options,
                body.as_bytes(),
                properties,
            )
            .await?;
        if !matches!(confirm.await?, Confirmation::Ack(None)) {
            return Err("the broker refused a message of the bare loop".into());
        }
        let least = millis(before.elapsed());
        tokio::time::sleep(PACE).await;
        let before = Instant::now();
        let mut context = sender.begin();
        context.send(job(&payload))?;
        let went = context.commit_confirmed().await?;
        if went.broker != 1 {
            return Err(format!("a job did not go through the broker: {went:?}").into());
        }
        let own = millis(before.elapsed());
        if n >= 20 {
            bare.push(least);
            ours.push(own);
        }
    }
    consumer.abort();
    bare::delete(&url()?, &queue).await?;
    client.batch_execute(&format!("drop schema {aside} cascade")).await?;
    site.close(Some(executor), vec![sender, worker]).await?;
    Ok((ours, bare))
}
