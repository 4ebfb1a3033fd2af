//! What a node asks of the database while there is nothing to do.

use std::time::Duration;

use jobwright::{CommandExecutor, Job, Outcome};
use serde_json::json;

use crate::Result;
use crate::load::KIND;
use crate::report::{Line, Report, Required, Unit};
use crate::server::Usage;
use crate::setup::Bench;

/// Measures two lives, a long and a short one. The difference leaves out the cost of start and end, and the counters are complete, because the
/// backends have ended.
pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let idle = Duration::from_secs(if bench.args.quick { 6 } else { 20 });
    // Longer than until a node's single check for rows that a clock which was ahead has written.
    let settled = Duration::from_secs(4);
    let short = life(bench, settled).await?;
    let long = life(bench, settled + idle).await?;
    let rate = |more: f64, less: f64| (more - less) / idle.as_secs_f64();
    let commits = rate(long.commits, short.commits);
    let statements = long.statements.zip(short.statements).map(|(more, less)| rate(more, less));
    let counted = if statements.is_some() { "statements" } else { "transactions" };
    report.raw(json!({ "case": "idle", "short": format!("{short:?}"), "long": format!("{long:?}") }));
    report.add(
        Line::new(format!("idle node: {counted} a second"), Unit::Count, vec![statements.unwrap_or(commits)])
            .required(Required::AtMost(1.5)),
    );
    report.note(format!(
        "The idle node is counted once, over {} s, with the default configuration{}.",
        idle.as_secs(),
        if statements.is_some() { "" } else { "; each of its statements is a transaction of its own" }
    ));
    Ok(())
}

async fn life(bench: &Bench<'_>, length: Duration) -> Result<Usage> {
    let schema = bench.schema().await?;
    bench.server.settle().await?;
    let before = bench.server.snapshot().await?;
    let executor = CommandExecutor::builder(schema.services().await?)
        .handle(KIND, |_: Job| async { Ok(Outcome::Done) })
        .start()
        .await?;
    tokio::time::sleep(length).await;
    executor.shutdown(Duration::from_secs(5)).await?;
    bench.server.settle().await?;
    let usage = before.until(bench.server.snapshot().await?);
    bench.drop(schema).await?;
    Ok(usage)
}
