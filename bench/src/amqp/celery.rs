//! The peer: Celery with RabbitMQ. It is installed into a temporary folder, with the settings for speed its documentation names: prefork with one
//! process a core, a prefetch of 64 for each, no results, no events.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use jobwright::{CommandExecutor, Job, Outcome};
use tokio::process::{Child, Command};

use super::{Site, url};
use crate::Result;
use crate::cases::{PATIENCE, emptied, per_second, wait_done};
use crate::fetch::{succeeds, venv};
use crate::load::{BATCH, KIND, QUEUE, fill, left};
use crate::report::{Line, Report, Unit};
use crate::setup::Bench;

/// Both handlers append a byte to a file, by which the peer's finished tasks are counted.
const APP: &str = r#"
import os, sys
from celery import Celery

app = Celery("bench", broker=os.environ["AMQP_URL"])
app.conf.update(
    task_ignore_result=True, worker_prefetch_multiplier=64, broker_pool_limit=10, task_default_queue=os.environ["BENCH_QUEUE"],
    task_acks_late=os.environ.get("BENCH_LATE") == "1", worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True, worker_enable_remote_control=False,
)
fd = os.open(os.environ["BENCH_FILE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

@app.task(name="bench")
def bench(text):
    os.write(fd, b"x")

if __name__ == "__main__":
    with app.pool.acquire(block=True) as connection, app.amqp.producer_pool.acquire(block=True) as producer:
        for _ in range(int(sys.argv[1])):
            bench.apply_async(("x" * 89,), producer=producer)
"#;

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("jobwright-bench-celery-{}", std::process::id()));
    let done = compare(bench, report, &folder).await;
    let _ = std::fs::remove_dir_all(&folder);
    done
}

async fn compare(bench: &Bench<'_>, report: &mut Report, folder: &Path) -> Result<()> {
    let peer = match Celery::fetch(folder).await {
        Ok(peer) => peer,
        Err(why) => {
            report.note(format!("Celery: not run ({why})"));
            return Ok(());
        }
    };
    report.facts.push(("Celery".to_owned(), peer.version.clone()));
    let jobs = bench.args.count(12_000, 2_000);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for run in 0..bench.args.runs {
        theirs.push(peer.drain(jobs, run).await?);
        ours.push(own(bench, jobs, folder).await?);
        eprintln!("  {:.0} Celery, {:.0} ours", theirs[run], ours[run]);
    }
    report.add(
        Line::new(format!("drain of {jobs} jobs, a byte to a file each"), Unit::PerSecond, ours)
            .limit("Celery, prefork 2, late acks", theirs),
    );
    Ok(())
}

async fn own(bench: &Bench<'_>, jobs: usize, folder: &Path) -> Result<f64> {
    let site = Site::open(bench, 1000).await?;
    let loader = bench.connect().await?;
    fill(&bench.server, &loader, &site.schema, jobs).await?;
    let services = site.services(true).await?;
    let file = std::fs::OpenOptions::new().append(true).create(true).open(folder.join("own"))?;
    let file = std::sync::Arc::new(file);
    let start = Instant::now();
    let executor = CommandExecutor::builder(services.clone())
        .handle(KIND, move |_: Job| {
            let file = file.clone();
            async move {
                std::io::Write::write_all(&mut &*file, b"x")?;
                Ok(Outcome::Done)
            }
        })
        .queue(QUEUE, BATCH)
        .start()
        .await?;
    wait_done(&executor, jobs).await?;
    emptied(left(bench.server.client(), &site.schema).await?)?;
    let rate = per_second(jobs, start.elapsed());
    site.close(Some(executor), vec![services]).await?;
    Ok(rate)
}

struct Celery {
    folder: PathBuf,
    python: PathBuf,
    version: String,
}

impl Celery {
    /// Installs it from pip's configured package index.
    async fn fetch(folder: &Path) -> Result<Self> {
        let python = venv(&folder.join("venv"), &["celery>=5.5,<6"]).await?;
        std::fs::write(folder.join("bench_app.py"), APP)?;
        let said = Command::new(&python).args(["-c", "import celery; print(celery.__version__)"]).output().await?;
        let version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        Ok(Self { folder: folder.to_owned(), python, version })
    }

    fn command(&self, file: &Path, queue: &str) -> Result<Command> {
        let mut command = Command::new(&self.python);
        command
            .current_dir(&self.folder)
            .env("AMQP_URL", url()?)
            .env("BENCH_FILE", file)
            .env("BENCH_QUEUE", queue)
            .env("BENCH_LATE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        Ok(command)
    }

    /// Fills the queue, then starts a worker. Measures the time from its first task to its last, without its start.
    async fn drain(&self, jobs: usize, run: usize) -> Result<f64> {
        let queue = format!("jobwright_bench_{}.celery{run}", std::process::id());
        let file = self.folder.join(format!("celery{run}"));
        std::fs::write(&file, "")?;
        succeeds(self.command(&file, &queue)?.arg("bench_app.py").arg(jobs.to_string()), 120).await?;
        let worker = self
            .command(&file, &queue)?
            .args(["-m", "celery", "-A", "bench_app", "worker", "-c", "2", "-P", "prefork", "-O", "fair"])
            .args(["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR"])
            .spawn()?;
        let rate = self.watch(worker, &file, jobs).await;
        super::bare::delete(&url()?, &queue).await?;
        rate
    }

    async fn watch(&self, mut worker: Child, file: &Path, jobs: usize) -> Result<f64> {
        let deadline = Instant::now() + PATIENCE;
        let mut start = None;
        loop {
            let done = std::fs::metadata(file)?.len() as usize;
            if done > 0 {
                let (first, since) = *start.get_or_insert_with(|| (done, Instant::now()));
                if done >= jobs {
                    let elapsed = since.elapsed();
                    if let Some(pid) = worker.id() {
                        succeeds(Command::new("kill").arg("-TERM").arg(pid.to_string()), 5).await?;
                    }
                    let _ = tokio::time::timeout(Duration::from_secs(20), worker.wait()).await;
                    return Ok(per_second(jobs - first, elapsed));
                }
            }
            if Instant::now() > deadline || worker.try_wait()?.is_some() {
                return Err(format!("Celery did not finish {jobs} tasks: {done} are done").into());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
