//! Our publisher beside bare lapin: the same bodies, with each message's confirm awaited separately.

use std::time::Instant;

use futures_util::stream::{self, StreamExt as _};
use jobwright::internal::broker_testing::{self as testing, Outgoing, Published};
use lapin::BasicProperties;

use super::{Site, bare, url};
use crate::Result;
use crate::load::{QUEUE, payload};
use crate::report::{Line, Report, Unit};
use crate::setup::Bench;

/// Messages of one caller, and callers at a time.
const BATCH: usize = 100;
const CALLERS: usize = 8;

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let count = bench.args.count(100_000, 10_000);
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.runs {
        limit.push(bare::publish_rate(&url()?, &format!("jobwright_bench_{}.bare", std::process::id()), count).await?);
        ours.push(publisher(bench, count).await?);
        eprintln!("  {:.0} bare, {:.0} ours", limit[limit.len() - 1], ours[ours.len() - 1]);
    }
    report.add(
        Line::new(format!("publish {count} messages with confirms"), Unit::PerSecond, ours)
            .limit("bare lapin, one channel, windows of 500", limit),
    );
    Ok(())
}

async fn publisher(bench: &Bench<'_>, count: usize) -> Result<f64> {
    let site = Site::open(bench, 1_000_000).await?;
    let services = site.services(true).await?;
    let broker = services.broker().ok_or("there is no broker")?.clone();
    broker.apply(&[QUEUE.to_owned()], &[]).await?;
    let body = payload();
    let start = Instant::now();
    let queue = broker.names().deliveries(QUEUE);
    let message = |n: usize| Outgoing {
        exchange: String::new(),
        routing_key: queue.clone(),
        mandatory: true,
        properties: BasicProperties::default().with_delivery_mode(2).with_message_id(n.to_string().into()),
        body: body.clone().into_bytes(),
    };
    // Several callers at a time, as with commits.
    let confirmed = stream::iter((0..count).step_by(BATCH))
        .map(|first| testing::publish(&broker, (first..(first + BATCH).min(count)).map(message).collect()))
        .buffer_unordered(CALLERS)
        .map(|outcomes| outcomes.into_iter().filter(|outcome| *outcome == Published::Acked).count())
        .fold(0, |sum, n| async move { sum + n })
        .await;
    let rate = count as f64 / start.elapsed().as_secs_f64();
    if confirmed != count {
        return Err(format!("{confirmed} of {count} messages were confirmed").into());
    }
    site.close(None, vec![services]).await?;
    Ok(rate)
}
