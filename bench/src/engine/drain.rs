//! One send, and the drain of the jobs sent.

use std::time::{Duration, Instant};

use jobwright::{CommandExecutor, HistoryConfig, Job, Keep, MessageServices, Outcome};

use super::case::Case;
use crate::Result;
use crate::cases::{emptied, per_second, wait_done};
use crate::load::{BATCH, KIND, QUEUE, job, left_in_queue, raw_payload, send};
use crate::setup::{Bench, Schema};

/// A queue without executors.
const ELSEWHERE: &str = "elsewhere";

/// Jobs a second.
pub(super) struct Rates {
    /// Contexts of 1,000, one after the other.
    pub(super) send: f64,
    /// From before the executor's start until the tables have no job of the queue.
    pub(super) drain: f64,
}

pub(super) async fn run(bench: &Bench<'_>, case: &Case) -> Result<Rates> {
    let mut schema = bench.schema().await?;
    schema.config.history = HistoryConfig::default().keep(case.keep);
    let send = filled(bench, &schema, case).await?;
    let services = schema.services().await?;
    let start = Instant::now();
    let executor = started(services, &schema, case.writes).await?;
    wait_done(&executor, case.jobs).await?;
    emptied(left_in_queue(bench.server.client(), &schema, QUEUE).await?)?;
    let elapsed = start.elapsed();
    executor.shutdown(Duration::from_secs(5)).await?;
    proved(bench, &schema, case).await?;
    bench.drop(schema).await?;
    Ok(Rates { send, drain: per_second(case.jobs, elapsed) })
}

/// Starts an executor whose handlers do nothing, or write a row through their transaction.
async fn started(services: MessageServices, schema: &Schema, writes: bool) -> Result<CommandExecutor> {
    let builder = CommandExecutor::builder(services).queue(QUEUE, 2 * BATCH);
    if !writes {
        return Ok(builder.handle(KIND, |_: Job| async { Ok(Outcome::Done) }).start().await?);
    }
    let insert = format!("insert into {}.effect (n) values ($1)", schema.name);
    let builder = builder.handle_with(KIND, move |cx| {
        let insert = insert.clone();
        Box::pin(async move {
            let seq = cx.job().seq;
            let transaction = cx.transaction().await?;
            let insert = transaction.prepare_cached(&insert).await?;
            transaction.execute(&insert, &[&seq]).await?;
            Ok(Outcome::Done)
        })
    });
    Ok(builder.start().await?)
}

/// Sends the jobs as programs do, and leaves the tables as after an idle while. Returns the rate of the sends.
async fn filled(bench: &Bench<'_>, schema: &Schema, case: &Case) -> Result<f64> {
    let client = bench.server.client();
    client.batch_execute(&format!("create table {}.effect (n bigint not null)", schema.name)).await?;
    bench.server.checkpoint().await;
    let services = schema.services().await?;
    for rule in &case.rules {
        services.admin().put_rule(rule).await?;
    }
    let payload = raw_payload()?;
    send(&services, case.blocked, |_| job(&payload).queue(ELSEWHERE).exclusive("beside")).await?;
    let start = Instant::now();
    send(&services, case.jobs, |n| (case.job)(n, job(&payload))).await?;
    let rate = per_second(case.jobs, start.elapsed());
    drop(services);
    settled(bench, schema).await?;
    let found = left_in_queue(client, schema, QUEUE).await?;
    if found == case.jobs as i64 {
        Ok(rate)
    } else {
        Err(format!("the tables have {found} jobs of {}", case.jobs).into())
    }
}

/// Waits for background work of the server after a load.
pub(super) async fn settled(bench: &Bench<'_>, schema: &Schema) -> Result<()> {
    bench.server.settle().await?;
    schema.vacuum(bench.server.client()).await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    Ok(())
}

/// Checks that the conditions of the case held all the time, and that it left what it should.
async fn proved(bench: &Bench<'_>, schema: &Schema, case: &Case) -> Result<()> {
    let beside = left_in_queue(bench.server.client(), schema, ELSEWHERE).await?;
    if beside != case.blocked as i64 {
        return Err(format!("{beside} jobs are blocked beside the drain instead of {}", case.blocked).into());
    }
    let sql = format!(
        "select (select count(*) from {0}.history), (select count(*) from {0}.permit where key <> 'g:beside'), \
                (select count(*) from {0}.effect)",
        schema.name
    );
    let row = bench.server.client().query_one(&sql, &[]).await?;
    let (kept, permits, written): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    let expected = |so: bool| if so { case.jobs as i64 } else { 0 };
    if kept != expected(case.keep == Keep::All) || permits != 0 || written != expected(case.writes) {
        return Err(format!(
            "of {} jobs {kept} ends are kept, {permits} permits are taken and {written} rows were written",
            case.jobs
        )
        .into());
    }
    Ok(())
}
