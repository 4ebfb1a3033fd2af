//! The measurements. Each runs limit and ours in turn, as often as requested, each time on a fresh schema.

mod drain;
mod enqueue;
mod idle;
pub(crate) mod latency;
pub(crate) mod send;
mod sqlite;
mod sqlx;
mod transaction;

use std::time::{Duration, Instant};

use jobwright::{CommandExecutor, Store};

use crate::Result;
use crate::report::Report;
use crate::setup::Bench;

pub(crate) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    for case in crate::args::CASES {
        if !bench.args.demand(case) {
            continue;
        }
        eprintln!("{case} …");
        match case {
            "drain" => drain::run(bench, report).await?,
            "enqueue" => enqueue::run(bench, report).await?,
            "send" => send::run(bench, report).await?,
            "latency" => latency::run(bench, report).await?,
            "idle" => idle::run(bench, report).await?,
            "transaction" => transaction::run(bench, report).await?,
            "sqlx" => sqlx::run(bench, report).await?,
            "sqlite" => sqlite::run(bench, report).await?,
            other => return Err(format!("the case {other:?} has no measurement").into()),
        }
    }
    Ok(())
}

/// The longest time for one run of a case: an error is better than a harness that hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// Waits until an executor reports that the database has accepted this many outcomes. The caller still checks the table.
pub(crate) async fn wait_done<S: Store>(executor: &CommandExecutor<S>, jobs: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let stats = executor.stats();
        if stats.done >= jobs as u64 {
            return Ok(());
        }
        if stats.failed + stats.refused > 0 || Instant::now() > deadline {
            return Err(format!("the executor did not finish {jobs} jobs: {stats:?}").into());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub(crate) fn emptied(left: i64) -> Result<()> {
    if left == 0 { Ok(()) } else { Err(format!("{left} jobs are left in the table").into()) }
}

pub(crate) fn per_second(n: usize, elapsed: Duration) -> f64 {
    n as f64 / elapsed.as_secs_f64()
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
