//! The embedded store.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jobwright::{CommandExecutor, DatabaseConfig, Job, MessageServices, Outcome, Sqlite};

use super::{emptied, per_second, wait_done};
use crate::load::{BATCH, KIND, QUEUE, SEND_BATCH, job, raw_payload};
use crate::report::{Line, Report, Unit};
use crate::setup::Bench;
use crate::{Result, limits};

/// Jobs sent and drained, per second.
type Rates = (f64, f64);

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let jobs = bench.args.count(100_000, 4_000);
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    for n in 0..bench.args.runs {
        limit.push(bare(&Directory::new(&bench.args.sqlite_dir, n * 2)?, jobs).await?);
        ours.push(executor(&Directory::new(&bench.args.sqlite_dir, n * 2 + 1)?, jobs).await?);
    }
    let each = |runs: &[Rates], of: fn(&Rates) -> f64| runs.iter().map(of).collect::<Vec<f64>>();
    report.add(
        Line::new(
            format!("SQLite: send of {jobs} jobs, {SEND_BATCH} in a context"),
            Unit::PerSecond,
            each(&ours, |r| r.0),
        )
        .limit(format!("{SEND_BATCH} inserts and a commit"), each(&limit, |r| r.0)),
    );
    report.add(
        Line::new(format!("SQLite: drain of {jobs} no-op jobs"), Unit::PerSecond, each(&ours, |r| r.1))
            .limit(format!("claim {BATCH}, remove {BATCH}"), each(&limit, |r| r.1)),
    );
    Ok(())
}

/// A temporary directory, removed with its content.
struct Directory(PathBuf);

impl Directory {
    fn new(parent: &Path, n: usize) -> Result<Self> {
        let path = parent.join(format!("jobwright-bench-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|e| format!("{} can't be made: {e}", path.display()))?;
        Ok(Self(path))
    }

    fn file(&self) -> PathBuf {
        self.0.join("jobs.db")
    }

    async fn services(&self) -> Result<MessageServices<Sqlite>> {
        let config = DatabaseConfig::url(format!("sqlite:{}", self.file().display()));
        Ok(MessageServices::sqlite(&config).await?)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn bare(directory: &Directory, jobs: usize) -> Result<Rates> {
    // Creates the file and its tables.
    drop(directory.services().await?);
    let file = directory.file();
    tokio::task::spawn_blocking(move || {
        let connection = limits::sqlite::open(&file)?;
        let start = Instant::now();
        limits::sqlite::insert(&connection, jobs)?;
        let sent = per_second(jobs, start.elapsed());
        let start = Instant::now();
        limits::sqlite::empty(&connection)?;
        emptied(limits::sqlite::left(&connection)?)?;
        Ok((sent, per_second(jobs, start.elapsed())))
    })
    .await?
}

async fn executor(directory: &Directory, jobs: usize) -> Result<Rates> {
    let services = directory.services().await?;
    let payload = raw_payload()?;
    let start = Instant::now();
    for _ in 0..jobs / SEND_BATCH {
        let mut context = services.begin();
        for _ in 0..SEND_BATCH {
            context.send(job(&payload))?;
        }
        context.commit().await?;
    }
    let sent = per_second(jobs, start.elapsed());
    let watch = limits::sqlite::open(&directory.file())?;
    let start = Instant::now();
    let executor = CommandExecutor::builder(services)
        .handle(KIND, |_: Job| async { Ok(Outcome::Done) })
        .queue(QUEUE, 2 * BATCH)
        .start()
        .await?;
    wait_done(&executor, jobs).await?;
    emptied(limits::sqlite::left(&watch)?)?;
    let drained = per_second(jobs, start.elapsed());
    executor.shutdown(Duration::from_secs(5)).await?;
    Ok((sent, drained))
}
