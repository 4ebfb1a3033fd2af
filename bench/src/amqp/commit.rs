//! The broker's cost for the sender: one job a transaction, with deliveries and without.

use std::time::{Duration, Instant};

use jobwright::{CommandExecutor, Job, Outcome};

use super::{Site, opened};
use crate::Result;
use crate::cases::{millis, per_second};
use crate::load::{KIND, QUEUE, job, raw_payload};
use crate::report::{Line, Report, Unit};
use crate::setup::Bench;
use crate::stats::percentile;

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let jobs = bench.args.count(2000, 200);
    let (mut ours, mut table) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.runs {
        table.push(measure(bench, jobs, false).await?);
        ours.push(measure(bench, jobs, true).await?);
    }
    let rates = |runs: &[Vec<f64>]| {
        runs.iter()
            .map(|run| per_second(run.len(), Duration::from_secs_f64(run.iter().sum::<f64>() / 1000.0)))
            .collect()
    };
    let middle = |runs: &[Vec<f64>], share| runs.iter().map(|run| percentile(run, share)).collect();
    report.add(
        Line::new("send and commit, delivered by the broker, one after the other", Unit::PerSecond, rates(&ours))
            .limit("the same without a broker", rates(&table)),
    );
    report.add(Line::new("… p50", Unit::Milliseconds, middle(&ours, 0.5)).limit("the same", middle(&table, 0.5)));
    report.add(Line::new("… p99", Unit::Milliseconds, middle(&ours, 0.99)).limit("the same", middle(&table, 0.99)));
    Ok(())
}

/// Runs with an executor elsewhere that takes the jobs, since a queue without consumers is not used; for comparison, so does the run without
/// deliveries.
async fn measure(bench: &Bench<'_>, jobs: usize, broker: bool) -> Result<Vec<f64>> {
    let site = Site::open(bench, 10_000).await?;
    let (sender, worker) = (site.services(broker).await?, site.services(broker).await?);
    let executor = CommandExecutor::builder(worker.clone())
        .handle(KIND, |_: Job| async { Ok(Outcome::Done) })
        .queue(QUEUE, 100)
        .start()
        .await?;
    if broker {
        opened(&sender).await?;
    }
    let payload = raw_payload()?;
    let mut times = Vec::with_capacity(jobs);
    for _ in 0..jobs {
        let start = Instant::now();
        let mut context = sender.begin();
        context.send(job(&payload))?;
        context.commit().await?;
        times.push(millis(start.elapsed()));
    }
    site.close(Some(executor), vec![sender, worker]).await?;
    Ok(times)
}
