//! A snapshot is held, so that no row that died since can be cleaned up.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jobwright::{CommandExecutor, Job, JobId, MessageServices, NewJob, Outcome};
use serde_json::json;
use tokio::sync::{mpsc, watch};

use super::PINNED;
use crate::Result;
use crate::cases::{PATIENCE, millis, per_second, wait_done};
use crate::load::{BATCH, KIND, QUEUE, SEND_BATCH, job, raw_payload};
use crate::report::{Line, Report, Required, Unit};
use crate::setup::{Bench, Schema};
use crate::stats::percentile;

/// Jobs that are drained repeatedly: first without, then with a snapshot that is as old as the measurement.
const ROUND: usize = 50_000;
/// Jobs that come one by one between two drains, and their pace.
const STEADY: usize = 150;
const PACE: Duration = Duration::from_millis(20);
const STEADY_KIND: &str = "steady";

/// The figures of one turn.
struct Turn {
    rate: f64,
    p50: f64,
    p99: f64,
}

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let time = bench.args.held(PINNED);
    let schema = bench.schema().await?;
    let mut worker = Worker::start(&schema).await?;
    let (mut free, mut pinned, mut samples) = (Vec::new(), Vec::new(), Vec::new());
    // The first turn connects, and prepares.
    worker.turn().await?;
    for _ in 0..bench.args.runs {
        free.push(worker.turn().await?);
    }
    let holder = bench.connect().await?;
    holder.batch_execute("begin isolation level repeatable read; select txid_current()").await?;
    let start = Instant::now();
    while start.elapsed() < time {
        let turn = worker.turn().await?;
        let (dead, bytes) = sizes(bench, &schema).await?;
        samples.push(json!({
            "seconds": start.elapsed().as_secs(), "rate": turn.rate, "p50": turn.p50, "p99": turn.p99,
            "dead": dead, "bytes": bytes,
        }));
        pinned.push(turn);
    }
    let (dead, bytes) = sizes(bench, &schema).await?;
    holder.batch_execute("rollback").await?;
    worker.stop().await?;
    bench.drop(schema).await?;
    report.raw(json!({ "case": "pinned", "samples": samples }));
    let jobs = (ROUND + STEADY) * pinned.len();
    // The last ones, when most rows are dead.
    let last = pinned.split_off(pinned.len().saturating_sub(free.len()));
    free.truncate(last.len());
    let held = format!("after {} s with a snapshot held", time.as_secs());
    let each = |turns: &[Turn], of: fn(&Turn) -> f64| turns.iter().map(of).collect::<Vec<f64>>();
    report.add(
        Line::new(format!("drain {held}"), Unit::PerSecond, each(&last, |turn| turn.rate))
            .limit("the same before it", each(&free, |turn| turn.rate))
            .required(Required::Ratio(0.9)),
    );
    let mut steady = |name: &str, of: fn(&Turn) -> f64| {
        report.add(
            Line::new(format!("… commit to start at 50/s, {name}"), Unit::Milliseconds, each(&last, of))
                .limit("the same before it", each(&free, of)),
        );
    };
    steady("p50", |turn| turn.p50);
    steady("p99", |turn| turn.p99);
    report.note(format!(
        "While the snapshot was held, {jobs} jobs came and went; then the job table had {dead} dead rows and {} MiB with its indexes.",
        bytes / 1_048_576
    ));
    Ok(())
}

/// An executor that lives as long as the measurement, and a separate sender.
struct Worker {
    executor: CommandExecutor,
    sender: MessageServices,
    /// Handlers of the jobs to be drained wait until it is open.
    is_open: watch::Sender<bool>,
    starts: mpsc::UnboundedReceiver<(JobId, Instant)>,
    done: usize,
}

impl Worker {
    async fn start(schema: &Schema) -> Result<Self> {
        let (is_open, open) = watch::channel(true);
        let (started, starts) = mpsc::unbounded_channel();
        let executor = CommandExecutor::builder(schema.services().await?)
            .handle(KIND, move |_: Job| {
                let mut open = open.clone();
                async move {
                    open.wait_for(|open| *open).await?;
                    Ok(Outcome::Done)
                }
            })
            .handle(STEADY_KIND, move |job: Job| {
                let started = started.clone();
                async move {
                    let _ = started.send((job.id, Instant::now()));
                    Ok(Outcome::Done)
                }
            })
            .queue(QUEUE, 2 * BATCH)
            .start()
            .await?;
        Ok(Self { executor, sender: schema.services().await?, is_open, starts, done: 0 })
    }

    async fn turn(&mut self) -> Result<Turn> {
        let rate = self.drain().await?;
        let times = self.steady().await?;
        Ok(Turn { rate, p50: percentile(&times, 0.5), p99: percentile(&times, 0.99) })
    }

    /// Returns jobs a second, from when the first of them may end.
    async fn drain(&mut self) -> Result<f64> {
        let payload = raw_payload()?;
        self.is_open.send(false)?;
        for _ in 0..ROUND / SEND_BATCH {
            let mut context = self.sender.begin();
            for _ in 0..SEND_BATCH {
                context.send(job(&payload))?;
            }
            context.commit().await?;
        }
        let start = Instant::now();
        self.is_open.send(true)?;
        self.done += ROUND;
        wait_done(&self.executor, self.done).await?;
        Ok(per_second(ROUND, start.elapsed()))
    }

    /// Returns milliseconds from the return of each commit to the start of its job.
    async fn steady(&mut self) -> Result<Vec<f64>> {
        let payload = raw_payload()?;
        let mut ticks = tokio::time::interval(PACE);
        let mut sent = HashMap::with_capacity(STEADY);
        for _ in 0..STEADY {
            ticks.tick().await;
            let mut context = self.sender.begin();
            let id = context.send(NewJob::json(STEADY_KIND, &payload).queue(QUEUE))?;
            context.commit().await?;
            sent.insert(id, Instant::now());
        }
        let mut times = Vec::with_capacity(STEADY);
        for _ in 0..STEADY {
            let (id, start) =
                tokio::time::timeout(PATIENCE, self.starts.recv()).await?.ok_or("the executor is gone")?;
            let committed = sent.get(&id).ok_or("a job was run that was not sent")?;
            times.push(millis(start.saturating_duration_since(*committed)));
        }
        self.done += STEADY;
        wait_done(&self.executor, self.done).await?;
        Ok(times)
    }

    async fn stop(self) -> Result<()> {
        self.executor.shutdown(Duration::from_secs(5)).await?;
        Ok(())
    }
}

/// Returns dead rows as the server estimates them, and bytes of the table with its indexes.
async fn sizes(bench: &Bench<'_>, schema: &Schema) -> Result<(i64, i64)> {
    let sql = "select n_dead_tup, pg_total_relation_size(relid) from pg_stat_user_tables where schemaname = $1 and relname = 'job'";
    let row = bench.server.client().query_one(sql, &[&schema.name]).await?;
    Ok((row.get(0), row.get(1)))
}
