//! Our publisher beside bare lapin: the same bodies, confirms awaited one by one for each message.

use std::time::Instant;

use jobwright::broker::testing;

use super::{Site, bare, url};
use crate::Result;
use crate::load::{QUEUE, payload};
use crate::report::{Line, Report, Unit};
use crate::setup::Bench;

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let count = bench.args.count(100_000, 10_000);
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.runs {
        let schema = bench.schema().await?;
        limit.push(bare::publish_rate(&url()?, &format!("{}.bare", schema.name), count).await?);
        ours.push(publisher(&schema, count).await?);
        eprintln!("  {:.0} bare, {:.0} ours", limit[limit.len() - 1], ours[ours.len() - 1]);
        bench.drop(schema).await?;
    }
    report.add(
        Line::new(format!("publish {count} messages with confirms"), Unit::PerSecond, ours)
            .limit("bare lapin, one channel, windows of 500", limit),
    );
    Ok(())
}

async fn publisher(schema: &crate::setup::Schema, count: usize) -> Result<f64> {
    let site = Site::new(schema, 1_000_000)?;
    let services = site.services(schema).await?;
    let broker = services.broker().ok_or("there is no broker")?.clone();
    broker.apply(&[QUEUE.to_owned()], &[]).await?;
    let body = payload();
    let start = Instant::now();
    let confirmed = testing::publish_many(&broker, QUEUE, body.as_bytes(), count, 500).await;
    let rate = count as f64 / start.elapsed().as_secs_f64();
    if confirmed != count {
        return Err(format!("{confirmed} of {count} messages were confirmed").into());
    }
    super::close(Some(&broker)).await;
    drop(services);
    site.close().await?;
    Ok(rate)
}
