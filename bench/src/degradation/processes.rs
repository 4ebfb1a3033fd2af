//! Several worker processes at one table.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use jobwright::store::{Rule, Scope};
use jobwright::{CommandExecutor, DatabaseConfig, Job, MessageServices, Outcome};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::Result;
use crate::cases::{PATIENCE, emptied, per_second};
use crate::load::{BATCH, KIND, QUEUE, fill, grouped, job, left, left_in_queue, raw_payload, send};
use crate::report::{Line, Report, Required, Unit};
use crate::server::memory_of;
use crate::setup::Bench;

const COUNTS: [usize; 4] = [1, 2, 4, 8];
/// The variable that names the schema to a worker.
const SCHEMA: &str = "BENCH_SCHEMA";

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let jobs = bench.args.count(400_000, 20_000);
    let rates = rates(bench, jobs, Work::Plain).await?;
    let (mut idle, mut most) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.runs {
        let memory = memory(bench, jobs).await?;
        idle.push(memory.0);
        most.push(memory.1);
    }
    report.add(Line::new("memory of an idle worker process", Unit::MebiBytes, idle).required(Required::AtMost(15.0)));
    report.add(
        Line::new(format!("… at most, while it drains {jobs} jobs"), Unit::MebiBytes, most)
            .required(Required::AtMost(60.0)),
    );
    lines(bench, report, "jobs", jobs, &rates, 0.95);
    Ok(())
}

/// The same with jobs of 1,000 groups.
pub(super) async fn groups(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let jobs = bench.args.count(100_000, 5_000);
    let rates = rates(bench, jobs, Work::Grouped).await?;
    lines(bench, report, "jobs of 1,000 groups", jobs, &rates, 0.9);
    Ok(())
}

#[derive(Clone, Copy)]
enum Work {
    Plain,
    Grouped,
}

type Rates = [Vec<f64>; COUNTS.len()];

async fn rates(bench: &Bench<'_>, jobs: usize, work: Work) -> Result<Rates> {
    let mut all = Rates::default();
    for _ in 0..bench.args.runs {
        for (count, rates) in COUNTS.into_iter().zip(&mut all) {
            rates.push(drain(bench, jobs, count, work).await?);
        }
    }
    Ok(all)
}

/// Adds each number of processes beside the best one of its run; the ratio required of eight is given.
fn lines(bench: &Bench<'_>, report: &mut Report, what: &str, jobs: usize, rates: &Rates, least: f64) {
    let best: Vec<f64> =
        (0..bench.args.runs).map(|run| rates.iter().map(|rates| rates[run]).fold(0.0, f64::max)).collect();
    for (count, rates) in COUNTS.into_iter().zip(rates) {
        eprintln!("  {count}: {rates:.0?}");
        let line = Line::new(format!("drain of {jobs} {what}, {count} processes"), Unit::PerSecond, rates.clone())
            .limit("the best number of processes in each run", best.clone());
        report.add(line.required((count == 8).then_some(Required::Ratio(least))));
    }
}

async fn drain(bench: &Bench<'_>, jobs: usize, count: usize, work: Work) -> Result<f64> {
    let schema = bench.schema().await?;
    match work {
        Work::Plain => fill(&bench.server, &bench.connect().await?, &schema, jobs).await?,
        Work::Grouped => {
            bench.server.checkpoint().await;
            let (services, payload) = (schema.services().await?, raw_payload()?);
            send(&services, jobs, |n| grouped(n, job(&payload))).await?;
            schema.vacuum(bench.server.client()).await?;
        }
    }
    // All of them run, and have nothing to do, before the first job is claimed.
    let queue = Rule::new(Scope::Queue, QUEUE);
    let admin = schema.services().await?.admin();
    admin.put_rule(&queue.clone().paused(true)).await?;
    let mut workers = Vec::new();
    for _ in 0..count {
        workers.push(Worker::start(bench, &schema.name).await?);
    }
    let start = Instant::now();
    admin.put_rule(&queue.paused(false)).await?;
    let mut done = vec![0; count];
    while done.iter().sum::<usize>() < jobs {
        for (worker, done) in workers.iter_mut().zip(&mut done) {
            if let Ok(line) = timeout(Duration::from_millis(2), worker.said.next_line()).await {
                *done = line?.ok_or("a worker ended early")?.parse()?;
            }
        }
        if start.elapsed() > PATIENCE {
            return Err(format!("{count} workers did not finish {jobs} jobs: {done:?}").into());
        }
    }
    emptied(left_in_queue(bench.server.client(), &schema, QUEUE).await?)?;
    let rate = per_second(jobs, start.elapsed());
    for worker in workers {
        worker.stop().await?;
    }
    bench.drop(schema).await?;
    Ok(rate)
}

/// Returns MiB of one worker: idle for a second, and the peak until a drain is over.
async fn memory(bench: &Bench<'_>, jobs: usize) -> Result<(f64, f64)> {
    let schema = bench.schema().await?;
    let worker = Worker::start(bench, &schema.name).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let idle = worker.memory("VmRSS:")?;
    let loader = bench.connect().await?;
    fill(&bench.server, &loader, &schema, jobs).await?;
    let start = Instant::now();
    while left(bench.server.client(), &schema).await? > 0 {
        if start.elapsed() > PATIENCE {
            return Err(format!("a worker did not finish {jobs} jobs").into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let most = worker.memory("VmHWM:")?;
    worker.stop().await?;
    bench.drop(schema).await?;
    Ok((idle, most))
}

struct Worker {
    child: Child,
    /// Open as long as the worker is to run.
    input: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    async fn start(bench: &Bench<'_>, schema: &str) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("worker")
            .env("DATABASE_URL", bench.url())
            .env(SCHEMA, schema)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (input, said) = (child.stdin.take().ok_or("no input")?, child.stdout.take().ok_or("no output")?);
        let mut worker = Self { child, input, said: BufReader::new(said).lines() };
        // It runs.
        timeout(PATIENCE, worker.said.next_line()).await??;
        Ok(worker)
    }

    fn memory(&self, field: &str) -> Result<f64> {
        let pid = self.child.id().ok_or("a worker ended early")?;
        let bytes = memory_of(&pid.to_string(), field).ok_or("this system does not say what memory a process has")?;
        Ok(bytes / 1_048_576.0)
    }

    async fn stop(mut self) -> Result<()> {
        drop(self.input);
        let status = timeout(PATIENCE, self.child.wait()).await??;
        if status.success() { Ok(()) } else { Err(format!("a worker ended with {status}").into()) }
    }
}

/// The body of a worker process: it works until its input ends, and reports how many jobs are done. It has one thread, as is usual for processes that
/// share few cores.
pub(crate) fn worker() -> Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work())
}

async fn work() -> Result<()> {
    let (url, schema) = (std::env::var("DATABASE_URL")?, std::env::var(SCHEMA)?);
    let services = MessageServices::postgres(&DatabaseConfig::url(url).schema(schema)).await?;
    let mut heard = BufReader::new(tokio::io::stdin()).lines();
    let say = |done: u64| -> Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{done}")?;
        Ok(out.flush()?)
    };
    let executor = CommandExecutor::builder(services)
        .handle(KIND, |_: Job| async { Ok(Outcome::Done) })
        .queue(QUEUE, 2 * BATCH)
        .start()
        .await?;
    say(0)?;
    let mut told = 0;
    loop {
        let stats = executor.stats();
        if stats.failed + stats.refused > 0 {
            return Err(format!("outcomes were refused: {stats:?}").into());
        }
        if stats.done != told {
            told = stats.done;
            say(told)?;
        }
        if timeout(Duration::from_millis(2), heard.next_line()).await.is_ok() {
            break;
        }
    }
    executor.shutdown(Duration::from_secs(10)).await?;
    Ok(())
}
