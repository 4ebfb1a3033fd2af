//! Part 2: many jobs, some of which fail once, twice or for good.

use std::time::{Duration, Instant};

use jobwright::{AnyStore, ExecutorBuilder, JobError, KindOptions, NewJob, Outcome, RetryPolicy};
use serde::{Deserialize, Serialize};

use super::progress::bar;
use super::stage::{Stage, execute, until};
use crate::failure::Failure;
use crate::output::line;

pub(super) const QUEUE: &str = "flood";
const KIND: &str = "book-effect";
const MAX_ATTEMPTS: u32 = 3;
/// More than a job has attempts.
const FOR_GOOD: u32 = 1000;
/// Jobs that fail for good.
const HOPELESS: u64 = 20;

/// A job that books its effect after it has failed this often.
#[derive(Serialize, Deserialize)]
struct Effect {
    number: u64,
    failures: u32,
}

fn failures(number: u64, jobs: u64) -> u32 {
    match number {
        n if n % (jobs / HOPELESS) == 0 => FOR_GOOD,
        n if n % 25 == 1 => 2,
        n if n % 10 == 2 => 1,
        _ => 0,
    }
}

/// Sends the jobs.
async fn send(stage: &Stage, jobs: u64) -> Result<(), Failure> {
    let mut number = 0;
    while number < jobs {
        let mut context = stage.messages.begin();
        for _ in 0..1000.min(jobs - number) {
            let effect = Effect { number, failures: failures(number, jobs) };
            context.send(NewJob::json(KIND, &effect).queue(QUEUE).max_attempts(MAX_ATTEMPTS))?;
            number += 1;
        }
        context.commit().await?;
    }
    Ok(())
}

/// The handler writes first and fails then: the writes of a failed attempt must not be found later.
fn handler(stage: &Stage, builder: ExecutorBuilder<AnyStore>) -> ExecutorBuilder<AnyStore> {
    let sql = format!("insert into {} (job, part, attempt, worker) values ($1, $2, $3, $4)", stage.table("ledger"));
    let worker = std::process::id().to_string();
    builder
        .kind_options(KIND, KindOptions::default().retry(RetryPolicy::Fixed(Duration::from_millis(300))))
        .handle_with(KIND, move |cx| {
            let (sql, worker) = (sql.clone(), worker.clone());
            Box::pin(async move {
                let job = cx.job();
                let effect: Effect = job.payload.decode()?;
                let values = [job.id.to_string(), QUEUE.to_owned(), job.attempt.to_string(), worker];
                execute(cx.transaction().await?, &sql, values).await?;
                if job.attempt <= effect.failures {
                    return Err(JobError::new(format!("failure {} on purpose", job.attempt)));
                }
                Ok(Outcome::Done)
            })
        })
}

/// Runs this part. Returns how many jobs were sent.
pub(super) async fn run(stage: &Stage, jobs: u64) -> Result<u64, Failure> {
    line(format!("2. {jobs} jobs, each with an effect of its own. Some fail once or twice, {HOPELESS} for good."))?;
    let start = async || handler(stage, stage.executor().queue(QUEUE, 16)).start().await;
    // With a broker, jobs are delivered to connected executors; without one, they wait for any executor.
    let with_broker = stage.messages.broker().is_some();
    let began = Instant::now();
    let (executor, sent, began) = if with_broker {
        let executor = start().await?;
        stage.consumed(QUEUE, 1).await?;
        let began = Instant::now();
        send(stage, jobs).await?;
        line(format!("    sent: {jobs} jobs, after {:.1} s; they are run meanwhile", began.elapsed().as_secs_f64()))?;
        (executor, jobs, began)
    } else {
        send(stage, jobs).await?;
        let waiting = stage.queue(QUEUE).await?.waiting;
        line(format!("    sent: {waiting} jobs, which wait, after {:.1} s", began.elapsed().as_secs_f64()))?;
        let began = Instant::now();
        (start().await?, jobs, began)
    };
    let bar = bar(sent, "jobs over");
    until("running all jobs", async || {
        let stats = executor.stats();
        // Only for the progress bar; whether they have ended is checked below.
        bar.set_position(stats.done);
        if stats.in_flight > 0 {
            return Ok(false);
        }
        let queue = stage.queue(QUEUE).await?;
        Ok(queue.waiting + queue.running + queue.timer == 0)
    })
    .await?;
    bar.finish_and_clear();
    let stats = executor.shutdown(Duration::from_secs(5)).await?;
    let seconds = began.elapsed().as_secs_f64();
    stage.over_the_broker(QUEUE, &stats).await?;
    let dead = stage.queue(QUEUE).await?.dead;
    line(format!(
        "    run: {} done in {seconds:.1} s ({:.0} a second), {} attempts failed, {dead} dead letters\n",
        stats.done,
        stats.done as f64 / seconds,
        stats.failed,
    ))?;
    Ok(sent)
}
