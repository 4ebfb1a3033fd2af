//! From the commit to the start of the handler in another process, at a low rate: by a delivery, and by a wake-up.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jobwright::{CommandExecutor, Job, MessageServices, Outcome};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::{Site, opened};
use crate::Result;
use crate::cases::{PATIENCE, millis};
use crate::load::{KIND, QUEUE, job, raw_payload};
use crate::report::{Line, Report, Unit};
use crate::setup::Bench;
use crate::stats::percentile;

/// 50 jobs a second.
const PACE: Duration = Duration::from_millis(20);

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let jobs = bench.args.count(500, 100);
    let (mut ours, mut table) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.runs {
        table.push(measure(bench, jobs, false).await?);
        ours.push(measure(bench, jobs, true).await?);
    }
    for (name, share) in [("commit to start at 50/s, p50", 0.5), ("… p99", 0.99), ("… max", 1.0)] {
        let of = |runs: &[Vec<f64>]| runs.iter().map(|run| percentile(run, share)).collect();
        report.add(Line::new(name, Unit::Milliseconds, of(&ours)).limit("table alone (NOTIFY)", of(&table)));
    }
    Ok(())
}

async fn measure(bench: &Bench<'_>, jobs: usize, broker: bool) -> Result<Vec<f64>> {
    let site = Site::open(bench, 1000).await?;
    let (sender, worker) = (site.services(broker).await?, site.services(broker).await?);
    let (started, mut starts) = mpsc::unbounded_channel();
    let executor = CommandExecutor::builder(worker.clone())
        .handle(KIND, move |job: Job| {
            let started = started.clone();
            async move {
                let _ = started.send((job.id, Instant::now()));
                Ok(Outcome::Done)
            }
        })
        .queue(QUEUE, 10)
        .start()
        .await?;
    if broker {
        opened(&sender).await?;
    }
    // The first ones are not measured: they create connections and prepared statements of both sides.
    paced(&sender, 20).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    while starts.try_recv().is_ok() {}

    let sent = paced(&sender, jobs).await?;
    let mut times = Vec::with_capacity(jobs);
    for _ in 0..jobs {
        let (id, start) = tokio::time::timeout(PATIENCE, starts.recv()).await?.ok_or("the executor is gone")?;
        times.push(millis(start.saturating_duration_since(*sent.get(&id).ok_or("a job was run that was not sent")?)));
    }
    site.close(Some(executor), vec![sender, worker]).await?;
    Ok(times)
}

/// Sends at the pace, and returns when each commit returned.
async fn paced(sender: &MessageServices, jobs: usize) -> Result<HashMap<jobwright::JobId, Instant>> {
    let payload = raw_payload()?;
    let mut sent = HashMap::with_capacity(jobs);
    let mut ticks = tokio::time::interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for _ in 0..jobs {
        ticks.tick().await;
        let mut context = sender.begin();
        let id = context.send(job(&payload))?;
        context.commit().await?;
        sent.insert(id, Instant::now());
    }
    Ok(sent)
}
