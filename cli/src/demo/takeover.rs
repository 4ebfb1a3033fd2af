//! Part 3: two worker processes, one of which is killed half way.

use std::process::Stdio;
use std::time::{Duration, Instant};

use jobwright::admin::{JobFilter, JobState, Page};
use jobwright::{AnyStore, ExecutorBuilder, JobId, NewJob, NodeId, Outcome};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

use super::progress::bar;
use super::stage::{Stage, config, execute, until};
use crate::failure::Failure;
use crate::output::line;

pub(super) const QUEUE: &str = "takeover";
const KIND: &str = "slow-effect";
const JOBS: u64 = 300;
const CONCURRENCY: usize = 10;
/// How long one of these jobs takes.
const SLOW: Duration = Duration::from_millis(100);
/// Tells the worker that will be killed where to work. A URL may contain a password, and arguments are visible to all users.
const URL: &str = "JOBWRIGHT_DEMO_URL";
const SCHEMA: &str = "JOBWRIGHT_DEMO_SCHEMA";
const BROKER: &str = "JOBWRIGHT_DEMO_BROKER";

/// What happened to the killed worker's jobs.
pub(super) struct Takeover {
    pub(super) sent: u64,
    /// The jobs that the killed worker had in flight.
    pub(super) orphans: Vec<JobId>,
    /// Its process id.
    pub(super) killed: u32,
}

fn worker(stage: &Stage) -> ExecutorBuilder<AnyStore> {
    let sql = format!("insert into {} (job, part, attempt, worker) values ($1, $2, $3, $4)", stage.table("ledger"));
    let worker = std::process::id().to_string();
    stage.executor().queue(QUEUE, CONCURRENCY).handle_with(KIND, move |cx| {
        let (sql, worker) = (sql.clone(), worker.clone());
        Box::pin(async move {
            // Before the transaction is opened: a transaction should not be held open during a wait.
            tokio::time::sleep(SLOW).await;
            let job = cx.job();
            let values = [job.id.to_string(), QUEUE.to_owned(), job.attempt.to_string(), worker];
            execute(cx.transaction().await?, &sql, values).await?;
            Ok(Outcome::Done)
        })
    })
}

/// Runs the process that will be killed. It ends when the tour does.
pub(super) async fn child() -> Result<(), Failure> {
    let variable = |name: &str| {
        std::env::var(name).map_err(|_| Failure::Usage("only the demo itself starts a worker of the demo".to_owned()))
    };
    let stage =
        Stage::connect(config(&variable(URL)?, &variable(SCHEMA)?, std::env::var(BROKER).ok().as_deref())).await?;
    let executor = worker(&stage).start().await?;
    // Ends with its parent, however the parent ends.
    let _ = tokio::io::stdin().read(&mut [0]).await;
    executor.shutdown(Duration::ZERO).await?;
    Ok(())
}

fn start_child(stage: &Stage) -> Result<Child, Failure> {
    let failed = |error| Failure::Failed(format!("a second worker could not be started: {error}"));
    let database = &stage.config.database;
    let broker = stage.config.broker.url.as_ref().map(|url| (BROKER, url.expose()));
    Command::new(std::env::current_exe().map_err(failed)?)
        .args(["demo", "--child-worker"])
        .env(URL, database.url.expose())
        .env(SCHEMA, &database.schema)
        .envs(broker)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)
}

pub(super) async fn run(stage: &Stage) -> Result<Takeover, Failure> {
    line(format!(
        "3. {JOBS} jobs of {SLOW:?} each, and two worker processes. One is killed half way, with SIGKILL.\n"
    ))?;
    // With a broker, jobs are delivered to connected executors; without one, they wait for any executor.
    let with_broker = stage.messages.broker().is_some();
    let mut sent = 0;
    if !with_broker {
        send(stage).await?;
        sent = stage.queue(QUEUE).await?.waiting.get();
    }

    let mut child = start_child(stage)?;
    let pid = child.id().unwrap_or_default();
    let mut doomed = None;
    until("the start of a second worker", async || {
        let nodes = stage.messages.admin().status().await?.nodes;
        doomed = nodes.iter().find(|node| node.pid == pid).map(|node| node.id);
        Ok(doomed.is_some())
    })
    .await?;
    let executor = worker(stage).start().await?;
    if with_broker {
        stage.consumed(QUEUE, 2).await?;
        sent = send(stage).await?;
    }
    let done = async || stage.number("select count(*) from {ledger} where part = 'takeover'").await;
    let bar = bar(sent, "jobs done");
    until("half of the jobs", async || {
        let done = done().await?;
        bar.set_position(done);
        Ok(done >= sent / 2)
    })
    .await?;
    child.kill().await.map_err(|error| Failure::Failed(format!("the second worker could not be killed: {error}")))?;
    let killed = Instant::now();
    let orphans = owned(stage, doomed).await?;
    let before = done().await?;
    bar.suspend(|| {
        line(format!("    killed worker process {pid} after {before} jobs; it had claimed {}", orphans.len()))
    })?;
    until("releasing the jobs of the killed worker", async || Ok(owned(stage, doomed).await?.is_empty())).await?;
    let released = killed.elapsed().as_secs_f64();
    until("running all jobs", async || {
        bar.set_position(done().await?);
        let queue = stage.queue(QUEUE).await?;
        // The killed worker's jobs are blocked until they can run alone.
        Ok(queue.waiting + queue.running + queue.timer + queue.blocked == 0)
    })
    .await?;
    bar.finish_and_clear();
    let stats = executor.shutdown(Duration::from_secs(5)).await?;
    stage.over_the_broker(QUEUE, &stats).await?;
    line(format!(
        "    the survivor released them after {released:.1} s (the lease was {:?}) and ran them\n",
        stage.config.executor.lease
    ))?;
    Ok(Takeover { sent, orphans, killed: pid })
}

/// Sends jobs in batches: the first of a queue are claimed from the table, until it is known that the broker queue has a consumer.
async fn send(stage: &Stage) -> Result<u64, Failure> {
    for first in (0..JOBS).step_by(50) {
        let mut context = stage.messages.begin();
        for number in first..JOBS.min(first + 50) {
            context.send(NewJob::json(KIND, &number).queue(QUEUE))?;
        }
        context.commit().await?;
    }
    Ok(JOBS)
}

/// Returns the jobs that a node owns.
async fn owned(stage: &Stage, node: Option<NodeId>) -> Result<Vec<JobId>, Failure> {
    let filter = JobFilter::state(JobState::Running).queue(QUEUE.to_owned());
    let jobs = stage.messages.admin().list(&filter, &Page::new(10_000)).await?;
    Ok(jobs.into_iter().filter(|job| job.owner == node).map(|job| job.id).collect())
}
