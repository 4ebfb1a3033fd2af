//! From a commit to the start of the handler, at a low rate.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jobwright::{CommandExecutor, Job, JobId, MessageServices, Outcome};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::millis;
use crate::Result;
use crate::limits::send::One;
use crate::load::{KIND, Make, QUEUE, job, plain, raw_payload};
use crate::report::{Line, Report, Unit};
use crate::setup::Bench;
use crate::stats::percentile;

/// 50 jobs a second.
const PACE: Duration = Duration::from_millis(20);
const CONCURRENCY: usize = 10;

/// Milliseconds of each job of one run.
#[derive(Default)]
pub(crate) struct Times {
    /// From the return of the commit to the start of the handler.
    pub(crate) after_commit: Vec<f64>,
    /// From before the send to the start of the handler.
    pub(crate) after_send: Vec<f64>,
    /// Milliseconds of a bare insert and commit, taken between the sends.
    bare: Vec<f64>,
}

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let jobs = bench.args.count(500, 100);
    let (mut remote, mut local) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.runs {
        remote.push(measure(bench, jobs, false, plain).await?);
        local.push(measure(bench, jobs, true, plain).await?);
    }
    for (name, runs) in [("sender elsewhere (NOTIFY)", &remote), ("sender and executor in one process", &local)] {
        let each = |of: &dyn Fn(&Times) -> f64| runs.iter().map(of).collect::<Vec<f64>>();
        let bare = each(&|run| percentile(&run.bare, 0.5));
        let mut line = |what: String, of: &dyn Fn(&Times) -> f64| {
            report.add(Line::new(what, Unit::Milliseconds, each(of)));
        };
        line(format!("{name}: commit to start at 50/s, p50"), &|run| percentile(&run.after_commit, 0.5));
        line("… p99".to_owned(), &|run| percentile(&run.after_commit, 0.99));
        line("… max".to_owned(), &|run| percentile(&run.after_commit, 1.0));
        // This one includes a commit, so a bare commit is its limit.
        report.add(
            Line::new("… from before the send, p50", Unit::Milliseconds, each(&|run| percentile(&run.after_send, 0.5)))
                .limit("bare insert and commit between the sends, p50", bare),
        );
        let late = each(&|run| percentile(&run.after_send, 0.99));
        report.add(Line::new("… from before the send, p99", Unit::Milliseconds, late));
    }
    Ok(())
}

pub(crate) async fn measure(bench: &Bench<'_>, jobs: usize, one_process: bool, make: Make) -> Result<Times> {
    let schema = bench.schema().await?;
    let (started, mut starts) = mpsc::unbounded_channel();
    let services = schema.services().await?;
    let sender = if one_process { services.clone() } else { schema.services().await? };
    let executor = CommandExecutor::builder(services)
        .handle(KIND, move |job: Job| {
            let started = started.clone();
            async move {
                let _ = started.send((job.id, Instant::now()));
                Ok(Outcome::Done)
            }
        })
        .queue(QUEUE, CONCURRENCY)
        .start()
        .await?;
    // The first ones are not measured: they create connections and prepared statements of both sides.
    paced(bench, &schema, &sender, 20, make).await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    while starts.try_recv().is_ok() {}

    let (sent, bare) = paced(bench, &schema, &sender, jobs, make).await?;
    let mut times = Times { bare, ..Times::default() };
    for _ in 0..jobs {
        let (id, start) = tokio::time::timeout(super::PATIENCE, starts.recv()).await?.ok_or("the executor is gone")?;
        let (before, after) = sent.get(&id).ok_or("a job was run that was not sent")?;
        // On the hot path a handler may start before the commit returns to its caller.
        times.after_commit.push(millis(start.saturating_duration_since(*after)));
        times.after_send.push(millis(start.saturating_duration_since(*before)));
    }
    executor.shutdown(Duration::from_secs(5)).await?;
    drop(sender);
    bench.drop(schema).await?;
    Ok(times)
}

/// The times just before and after each send.
type Sent = HashMap<JobId, (Instant, Instant)>;

/// Sends at the pace, with a bare commit half-way between two sends.
async fn paced(
    bench: &Bench<'_>,
    schema: &crate::setup::Schema,
    sender: &MessageServices,
    jobs: usize,
    make: Make,
) -> Result<(Sent, Vec<f64>)> {
    let payload = raw_payload()?;
    let client = bench.connect().await?;
    // Apart from the job table, so that no executor sees these rows.
    let aside = format!("{}_aside", schema.name);
    client
        .batch_execute(&format!(
            "drop schema if exists {aside} cascade; create schema {aside}; \
             create table {aside}.job (like {} including all)",
            schema.table()
        ))
        .await?;
    let elsewhere = crate::setup::Schema { name: aside.clone(), config: schema.config.clone() };
    let one = One::prepare(&client, &elsewhere).await?;
    let (mut sent, mut bare) = (HashMap::with_capacity(jobs), Vec::with_capacity(jobs));
    let mut ticks = tokio::time::interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for n in 0..jobs {
        ticks.tick().await;
        let before = Instant::now();
        let mut context = sender.begin();
        let id = context.send(make(n, job(&payload)))?;
        context.commit().await?;
        sent.insert(id, (before, Instant::now()));
        tokio::time::sleep(PACE / 2).await;
        let before = Instant::now();
        one.insert(&client).await?;
        bare.push(millis(before.elapsed()));
    }
    client.batch_execute(&format!("drop schema {aside} cascade")).await?;
    Ok((sent, bare))
}
