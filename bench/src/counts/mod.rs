//! The cost of a job in counts, which are the same on any machine: statements, WAL, pages, allocations. CI compares them with `bench/counts.json` and
//! fails when one has grown by a tenth. A change that is worth its price records them again.
//!
//! It is a test of this program, so that it is built once with all others, and ignored by default, because it needs a server without other work.
//! `cargo xtask counts` starts that and runs it.

mod admission;
mod allocations;
mod baseline;
mod claims;
mod sends;

use crate::Result;
use crate::args::Args;
use crate::setup::Bench;

/// The counts by name. The names are those of the file.
type Values = Vec<(&'static str, f64)>;

/// The variable that, set to `write`, records the counts instead of comparing them.
const MODE: &str = "JOBWRIGHT_COUNTS";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server of its own: cargo xtask counts"]
async fn no_count_has_grown() -> Result<()> {
    let args = Args::default();
    let bench = Bench::open(&args).await?;
    let counted = count(&bench).await;
    bench.close().await?;
    let values = counted?;
    if std::env::var(MODE).is_ok_and(|mode| mode == "write") {
        baseline::write(&values)
    } else {
        baseline::check(&values)
    }
}

async fn count(bench: &Bench<'_>) -> Result<Values> {
    if !bench.server.has_statements() {
        return Err("statements can't be counted: this server has not loaded pg_stat_statements".into());
    }
    let mut values = sends::run(bench).await?;
    values.extend(claims::run(bench).await?);
    values.extend(admission::run(bench).await?);
    values.extend(allocations::run(bench).await?);
    Ok(values)
}
