//! No-op jobs from a full table to an empty one, and their cost.

use std::time::{Duration, Instant};

use jobwright::{CommandExecutor, Job, Outcome};
use serde_json::json;

use super::{emptied, per_second, wait_done};
use crate::Result;
use crate::limits;
use crate::load::{BATCH, KIND, QUEUE, fill, left};
use crate::report::{Line, Report, Required, Unit};
use crate::server::{Usage, peak_memory, reset_peak_memory};
use crate::setup::{Bench, Schema};

struct Drained {
    jobs: usize,
    rate: f64,
    usage: Usage,
    hot: Option<f64>,
    memory: Option<f64>,
}

impl Drained {
    fn per_job(&self, value: f64) -> f64 {
        value / self.jobs as f64
    }

    fn json(&self, who: &str) -> serde_json::Value {
        json!({
            "case": "drain", "who": who, "jobs": self.jobs, "rate": self.rate, "usage": format!("{:?}", self.usage),
            "hot": self.hot, "memory": self.memory,
        })
    }
}

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let jobs = bench.args.count(100_000, 10_000);
    let (mut ours, mut best, mut wins_of_two) = (Vec::new(), Vec::new(), 0);
    for _ in 0..bench.args.runs {
        let one = bare(bench, jobs, 1).await?;
        let two = bare(bench, jobs, 2).await?;
        let own = executor(bench, jobs).await?;
        eprintln!("  {:.0} and {:.0} bare, {:.0} ours", one.rate, two.rate, own.rate);
        for (who, drained) in [("bare 1", &one), ("bare 2", &two), ("ours", &own)] {
            report.raw(drained.json(who));
        }
        wins_of_two += usize::from(two.rate > one.rate);
        best.push(if two.rate > one.rate { two } else { one });
        ours.push(own);
    }
    let rates = |runs: &[Drained]| runs.iter().map(|run| run.rate).collect::<Vec<f64>>();
    let limit = format!("claim {BATCH}, remove {BATCH}, on 1 or 2 connections");
    report.add(
        Line::new(format!("drain of {jobs} no-op jobs"), Unit::PerSecond, rates(&ours))
            .limit(&limit, rates(&best))
            .required(Required::Ratio(0.4)),
    );
    report.note(format!(
        "The limit of the drain is the better of 1 and 2 connections in each run: 2 connections won {wins_of_two} of {}.",
        bench.args.runs
    ));
    let mut cost = |name: &str, unit: Unit, of: &dyn Fn(&Drained) -> Option<f64>| {
        let limit = ("the same", best.iter().map(of).collect());
        report.add_known(name, unit, ours.iter().map(of).collect(), limit, None);
    };
    cost("… PostgreSQL's CPU for 1,000 jobs", Unit::CpuSeconds, &|run| {
        run.usage.server_cpu.map(|cpu| run.per_job(cpu) * 1000.0)
    });
    cost("… client's CPU for 1,000 jobs", Unit::CpuSeconds, &|run| {
        run.usage.own_cpu.map(|cpu| run.per_job(cpu) * 1000.0)
    });
    cost("… WAL for a job", Unit::Bytes, &|run| Some(run.per_job(run.usage.wal)));
    cost("… commits for a job", Unit::Count, &|run| Some(run.per_job(run.usage.commits)));
    cost("… statements for a job", Unit::Count, &|run| run.usage.statements.map(|n| run.per_job(n)));
    cost("… updates within their page (HOT)", Unit::Share, &|run| run.hot);
    cost("… largest memory of the process", Unit::MebiBytes, &|run| run.memory.map(|bytes| bytes / 1_048_576.0));
    Ok(())
}

async fn bare(bench: &Bench<'_>, jobs: usize, connections: usize) -> Result<Drained> {
    let schema = bench.schema().await?;
    filled(bench, &schema, jobs).await?;
    let clients = limits::drain::connect(bench, connections).await?;
    reset_peak_memory();
    let before = bench.server.snapshot().await?;
    let start = Instant::now();
    limits::drain::empty(&clients, &schema).await?;
    emptied(left(bench.server.client(), &schema).await?)?;
    let elapsed = start.elapsed();
    drop(clients);
    finished(bench, schema, jobs, elapsed, before).await
}

async fn executor(bench: &Bench<'_>, jobs: usize) -> Result<Drained> {
    let schema = bench.schema().await?;
    filled(bench, &schema, jobs).await?;
    let services = schema.services().await?;
    reset_peak_memory();
    let before = bench.server.snapshot().await?;
    let start = Instant::now();
    let executor = CommandExecutor::builder(services)
        .handle(KIND, |_: Job| async { Ok(Outcome::Done) })
        .queue(QUEUE, 2 * BATCH)
        .start()
        .await?;
    wait_done(&executor, jobs).await?;
    emptied(left(bench.server.client(), &schema).await?)?;
    let elapsed = start.elapsed();
    executor.shutdown(Duration::from_secs(5)).await?;
    finished(bench, schema, jobs, elapsed, before).await
}

async fn filled(bench: &Bench<'_>, schema: &Schema, jobs: usize) -> Result<()> {
    let loader = bench.connect().await?;
    fill(&bench.server, &loader, schema, jobs).await?;
    drop(loader);
    // The loader's work must not count as work of the drain.
    bench.server.settle().await?;
    // The same count as at the end, so that this connection has the catalogue in its cache before the clock runs.
    let found = left(bench.server.client(), schema).await?;
    if found == jobs as i64 { Ok(()) } else { Err(format!("the table has {found} jobs instead of {jobs}").into()) }
}

async fn finished(
    bench: &Bench<'_>,
    schema: Schema,
    jobs: usize,
    elapsed: Duration,
    before: crate::server::Snapshot,
) -> Result<Drained> {
    let memory = peak_memory();
    bench.server.settle().await?;
    let usage = before.until(bench.server.snapshot().await?);
    let hot = bench.server.hot_ratio(&schema.name).await?;
    bench.drop(schema).await?;
    Ok(Drained { jobs, rate: per_second(jobs, elapsed), usage, hot, memory })
}
