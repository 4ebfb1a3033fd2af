//! One send, and the drain of what was sent.

use std::time::{Duration, Instant};

use jobwright::{CommandExecutor, HistoryConfig, Job, Keep, MessageServices, NewJob, Outcome};

use super::case::Case;
use crate::Result;
use crate::cases::{emptied, per_second, wait_done};
use crate::load::{BATCH, KIND, QUEUE, SEND_BATCH, job, raw_payload};
use crate::setup::{Bench, Schema};

/// A queue that nobody works on.
const ELSEWHERE: &str = "elsewhere";

/// Jobs a second.
pub(super) struct Rates {
    /// Contexts of 1,000, one after the other.
    pub(super) send: f64,
    /// From before the executor's start until the tables have none of the queue.
    pub(super) drain: f64,
}

pub(super) async fn run(bench: &Bench<'_>, case: &Case) -> Result<Rates> {
    let mut schema = bench.schema().await?;
    schema.config.history = HistoryConfig::default().keep(case.keep);
    let send = filled(bench, &schema, case).await?;
    let services = schema.services().await?;
    let start = Instant::now();
    let executor = CommandExecutor::builder(services)
        .handle(KIND, |_: Job| async { Ok(Outcome::Done) })
        .queue(QUEUE, 2 * BATCH)
        .start()
        .await?;
    wait_done(&executor, case.jobs).await?;
    emptied(left(bench, &schema, QUEUE).await?)?;
    let elapsed = start.elapsed();
    executor.shutdown(Duration::from_secs(5)).await?;
    proved(bench, &schema, case).await?;
    bench.drop(schema).await?;
    Ok(Rates { send, drain: per_second(case.jobs, elapsed) })
}

/// Sends what is to be drained the way programs do, and leaves the tables as after a quiet moment. Returns the rate of the sends.
async fn filled(bench: &Bench<'_>, schema: &Schema, case: &Case) -> Result<f64> {
    bench.server.checkpoint().await;
    let services = schema.services().await?;
    for rule in &case.rules {
        services.jobs().put_rule(rule).await?;
    }
    send(&services, case.blocked, |_, job| job.queue(ELSEWHERE).exclusive("beside")).await?;
    let start = Instant::now();
    send(&services, case.jobs, case.job).await?;
    let rate = per_second(case.jobs, start.elapsed());
    drop(services);
    bench.server.settle().await?;
    let tables = ["job", "blocked_job", "slot", "opening"].map(|table| format!("{}.{table}", schema.name)).join(", ");
    bench.server.client().batch_execute(&format!("vacuum (analyze) {tables}")).await?;
    // What the server does on its own after a load.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let found = left(bench, schema, QUEUE).await?;
    if found == case.jobs as i64 {
        Ok(rate)
    } else {
        Err(format!("the tables have {found} jobs of {}", case.jobs).into())
    }
}

async fn send(services: &MessageServices, jobs: usize, make: fn(usize, NewJob) -> NewJob) -> Result<()> {
    let payload = raw_payload()?;
    for first in (0..jobs).step_by(SEND_BATCH) {
        let mut context = services.begin();
        for n in first..jobs.min(first + SEND_BATCH) {
            context.send(make(n, job(&payload)))?;
        }
        context.commit().await?;
    }
    Ok(())
}

/// Jobs of a queue, waiting, running or blocked.
async fn left(bench: &Bench<'_>, schema: &Schema, queue: &str) -> Result<i64> {
    let name = &schema.name;
    let sql = format!(
        "select (select count(*) from {name}.job where queue = $1) + (select count(*) from {name}.blocked_job where queue = $1)"
    );
    Ok(bench.server.client().query_one(&sql, &[&queue]).await?.get(0))
}

/// Whether what the case is about was there all the time, and what it is to leave is there.
async fn proved(bench: &Bench<'_>, schema: &Schema, case: &Case) -> Result<()> {
    let beside = left(bench, schema, ELSEWHERE).await?;
    if beside != case.blocked as i64 {
        return Err(format!("{beside} jobs are blocked beside the drain instead of {}", case.blocked).into());
    }
    let sql = format!(
        "select (select count(*) from {0}.history), (select count(*) from {0}.slot where key <> 'g:beside')",
        schema.name
    );
    let row = bench.server.client().query_one(&sql, &[]).await?;
    let (kept, slots): (i64, i64) = (row.get(0), row.get(1));
    let expected = if case.keep == Keep::All { case.jobs as i64 } else { 0 };
    if kept != expected || slots != 0 {
        return Err(format!("{kept} ends are kept instead of {expected}, and {slots} slots are taken").into());
    }
    Ok(())
}
