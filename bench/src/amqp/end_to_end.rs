//! Jobs sent by one process and run by another, through the broker: from the first send until the database has all outcomes.

use std::time::Instant;

use jobwright::{CommandExecutor, Job, Outcome};

use super::{Site, bare, opened, url};
use crate::Result;
use crate::cases::{emptied, per_second, wait_done};
use crate::load::{KIND, QUEUE, job, left, raw_payload};
use crate::report::{Line, Report, Required, Unit};
use crate::setup::Bench;

/// Messages in a context.
const CONTEXT: usize = 100;

struct Run {
    rate: f64,
    /// The share of the jobs that came through the broker.
    delivered: f64,
}

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let jobs = bench.args.count(50_000, 5_000);
    let (mut ours, mut limit, mut loops, mut tables) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.args.runs {
        let broker = bare::loop_rate(&url()?, &format!("jobwright_bench_{}.loop", std::process::id()), jobs).await?;
        let table = measure(bench, jobs, false).await?.rate;
        let own = measure(bench, jobs, true).await?;
        eprintln!(
            "  {broker:.0} bare loop, {table:.0} table, {:.0} ours ({:.0} % delivered)",
            own.rate,
            own.delivered * 100.0
        );
        limit.push(broker.min(table));
        loops.push(broker);
        tables.push(table);
        ours.push(own);
    }
    let rates: Vec<f64> = ours.iter().map(|run| run.rate).collect();
    report.add(
        Line::new(format!("send {jobs} in contexts of {CONTEXT}, run and remove them"), Unit::PerSecond, rates.clone())
            .limit("the lower of the two below", limit)
            .required(Required::Ratio(0.5)),
    );
    report.add(
        Line::new("… beside the bare loop", Unit::PerSecond, rates.clone())
            .limit("publish with confirms, consume, ack", loops),
    );
    report
        .add(Line::new("… beside the table alone", Unit::PerSecond, rates).limit("the same without a broker", tables));
    report.add(Line::new("… through the broker", Unit::Share, ours.iter().map(|run| run.delivered).collect()));
    Ok(())
}

async fn measure(bench: &Bench<'_>, jobs: usize, broker: bool) -> Result<Run> {
    let site = Site::open(bench, 10_000).await?;
    let (sender, worker) = (site.services(broker).await?, site.services(broker).await?);
    let executor = CommandExecutor::builder(worker.clone())
        .handle(KIND, |_: Job| async { Ok(Outcome::Done) })
        .queue(QUEUE, 1000)
        .start()
        .await?;
    let before = if broker { opened(&sender).await? } else { 0 };
    wait_done(&executor, before).await?;
    let delivered = executor.stats().delivered;
    let payload = raw_payload()?;
    bench.server.checkpoint().await;
    let start = Instant::now();
    for _ in 0..jobs / CONTEXT {
        let mut context = sender.begin();
        for _ in 0..CONTEXT {
            context.send(job(&payload))?;
        }
        context.commit().await?;
    }
    wait_done(&executor, before + jobs).await?;
    emptied(left(bench.server.client(), &site.schema).await?)?;
    let rate = per_second(jobs, start.elapsed());
    let delivered = (executor.stats().delivered - delivered) as f64 / jobs as f64;
    site.close(Some(executor), vec![sender, worker]).await?;
    Ok(Run { rate, delivered })
}
