//! Handlers that take many jobs with one call.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::{
    BatchOptions, BatchOutcomes, CommandExecutor, ErrorKind, ExecutorBuilder, JobError, JobId, KindOptions,
    MessageServices, NewJob, Outcome,
};

use crate::support::environment::{Gate, PATIENCE, World, at_once, quick};

/// The number of jobs in each call.
type Sizes = Arc<Mutex<Vec<usize>>>;

fn builder<W: World>(messages: &MessageServices<W::Store>) -> ExecutorBuilder<W::Store> {
    CommandExecutor::builder(messages.clone()).config(quick()).kind_options("many", at_once())
}

/// Waits so long that only a full batch runs within a test.
fn full(size: usize) -> BatchOptions {
    BatchOptions::new(size).wait(Duration::from_secs(60))
}

async fn send<W: World>(messages: &MessageServices<W::Store>, count: u32) -> Vec<JobId> {
    let mut cx = messages.begin();
    let ids = (0..count).map(|n| cx.send(NewJob::json("many", &n).max_attempts(3)).unwrap()).collect();
    cx.commit().await.unwrap();
    ids
}

/// Builds an executor whose batches write each job into the ledger, and end as `ends` says.
async fn noting<W: World>(
    messages: &MessageServices<W::Store>,
    options: BatchOptions,
    sizes: &Sizes,
    ends: impl Fn(u32, u32) -> Result<Outcome, JobError> + Clone + Send + Sync + 'static,
) -> CommandExecutor<W::Store> {
    let sizes = sizes.clone();
    builder::<W>(messages)
        .handle_batch("many", options, move |batch| {
            sizes.lock().unwrap().push(batch.jobs().len());
            let ends = ends.clone();
            Box::pin(async move {
                let mut outcomes = BatchOutcomes::default();
                for job in batch.jobs() {
                    W::note(batch.transaction().await?, &job.id.to_string()).await?;
                    outcomes.set(job.id, ends(job.payload.decode()?, job.attempt));
                }
                Ok(outcomes)
            })
        })
        .queue("default", 20)
        .start()
        .await
        .unwrap()
}

pub(crate) async fn a_full_batch_is_one_call_and_one_commit<W: World>(db: &W) {
    let messages = db.messages().await;
    let ids = send::<W>(&messages, 12).await;
    let sizes = Sizes::default();
    let executor = noting::<W>(&messages, full(4), &sizes, |_, _| Ok(Outcome::Done)).await;
    db.drained().await;
    db.each_once(&ids).await;
    let stats = executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!((stats.done, stats.failed, stats.refused, stats.in_flight), (12, 0, 0, 0));
    assert_eq!(*sizes.lock().unwrap(), [4, 4, 4]);
}

pub(crate) async fn a_batch_that_does_not_fill_runs_after_its_wait<W: World>(db: &W) {
    let messages = db.messages().await;
    let ids = send::<W>(&messages, 3).await;
    let sizes = Sizes::default();
    let options = BatchOptions::new(10).wait(Duration::from_millis(100));
    let executor = noting::<W>(&messages, options, &sizes, |_, _| Ok(Outcome::Done)).await;
    db.drained().await;
    db.each_once(&ids).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!(sizes.lock().unwrap().iter().sum::<usize>(), 3);
}

/// A batch that waited for more jobs than may run would wait forever.
pub(crate) async fn a_batch_is_never_larger_than_its_concurrency_allows<W: World>(db: &W) {
    let messages = db.messages().await;
    let ids = send::<W>(&messages, 6).await;
    let sizes = Sizes::default();
    let seen = sizes.clone();
    let executor = builder::<W>(&messages)
        .handle_batch("many", full(100), move |batch| {
            seen.lock().unwrap().push(batch.jobs().len());
            Box::pin(async move { Ok(batch.all_done()) })
        })
        .kind_options("many", at_once().concurrency(2))
        .queue("default", 3)
        .start()
        .await
        .unwrap();
    for id in ids {
        db.gone(id).await;
    }
    executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!(*sizes.lock().unwrap(), [2, 2, 2]);
}

/// Nothing was written, and what it sent was refused, so each job is recorded as it ended. None runs again.
pub(crate) async fn each_job_of_a_batch_ends_by_itself<W: World>(db: &W) {
    let messages = db.messages().await;
    let ids = send::<W>(&messages, 5).await;
    let sizes = Sizes::default();
    let calls = sizes.clone();
    let executor = builder::<W>(&messages)
        .kind_options("many", KindOptions::default())
        .handle_batch("many", full(5), move |batch| {
            calls.lock().unwrap().push(batch.jobs().len());
            Box::pin(async move {
                batch.send(&batch.jobs()[0], NewJob::json("", &())).unwrap_err();
                let each = batch.jobs().iter().filter_map(|job| {
                    let ended = match job.payload.decode::<u32>().unwrap() {
                        0 => Ok(Outcome::Done),
                        1 => Err(JobError::fatal("bad")),
                        2 => Ok(Outcome::Snooze(Duration::from_secs(3600))),
                        3 => Ok(Outcome::Cancel("not wanted".to_owned())),
                        _ => return None,
                    };
                    Some((job.id, ended))
                });
                Ok(each.collect())
            })
        })
        .start()
        .await
        .unwrap();
    db.gone(ids[0]).await;
    db.reaches(ids[1], JobState::Dead).await;
    db.reaches(ids[2], JobState::Timer).await;
    db.gone(ids[3]).await;
    db.reaches(ids[4], JobState::Timer).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!(*sizes.lock().unwrap(), [5]);
    assert_eq!(db.jobs().detail(ids[2]).await.summary.attempt, 0, "a snooze costs nothing");
    let left_out = db.jobs().detail(ids[4]).await;
    assert_eq!(left_out.errors[0].error, "the batch handler returned no outcome for this job of its batch");
}

/// The other jobs wrote into the same transaction: they run again without the failed one, at no attempt.
pub(crate) async fn one_failure_rolls_back_the_batch<W: World>(db: &W) {
    let messages = db.messages().await;
    let ids = send::<W>(&messages, 4).await;
    let sizes = Sizes::default();
    let options = BatchOptions::new(4).wait(Duration::from_millis(100));
    let executor = noting::<W>(&messages, options, &sizes, |payload, attempt| match payload {
        2 => Err(JobError::fatal("bad")),
        _ if attempt > 1 => Err(JobError::fatal("it cost an attempt")),
        _ => Ok(Outcome::Done),
    })
    .await;
    db.reaches(ids[2], JobState::Dead).await;
    for id in [ids[0], ids[1], ids[3]] {
        db.gone(id).await;
    }
    executor.shutdown(Duration::ZERO).await.unwrap();
    db.each_once(&[ids[0], ids[1], ids[3]]).await;
}

pub(crate) async fn a_panic_fails_all_jobs_of_its_batch<W: World>(db: &W) {
    fails_all(db, || panic!("all is lost"), "all is lost").await;
}

pub(crate) async fn an_error_fails_all_jobs_of_its_batch<W: World>(db: &W) {
    fails_all(db, || Err(JobError::new("no connection")), "no connection").await;
}

async fn fails_all<W: World>(
    db: &W,
    ends: impl Fn() -> Result<BatchOutcomes, JobError> + Copy + Send + Sync + 'static,
    says: &str,
) {
    let messages = db.messages().await;
    let ids = send::<W>(&messages, 3).await;
    let executor = builder::<W>(&messages)
        .handle_batch("many", full(3), move |batch| {
            Box::pin(async move {
                W::note(batch.transaction().await?, "written").await?;
                ends()
            })
        })
        .start()
        .await
        .unwrap();
    for id in &ids {
        db.reaches(*id, JobState::Dead).await;
        let errors = db.jobs().detail(*id).await.errors;
        assert_eq!(errors.len(), 3, "an attempt each time");
        assert!(errors[0].error.contains(says), "{}", errors[0].error);
    }
    executor.shutdown(Duration::ZERO).await.unwrap();
    assert!(db.ledger().await.is_empty());
}

pub(crate) async fn a_timeout_fails_all_jobs_of_its_batch<W: World>(db: &W) {
    let messages = db.messages().await;
    let ids = send::<W>(&messages, 2).await;
    let executor = builder::<W>(&messages)
        .handle_batch("many", full(2), |_| Box::pin(std::future::pending()))
        .kind_options("many", at_once().timeout(Duration::from_millis(50)))
        .start()
        .await
        .unwrap();
    for id in ids {
        db.reaches(id, JobState::Dead).await;
        let errors = db.jobs().detail(id).await.errors;
        assert_eq!(errors[0].error, "the batch handler did not finish within 50ms");
    }
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// An operator removes one job while the batch runs: the batch is rolled back, and the other jobs run again.
pub(crate) async fn a_batch_with_a_job_that_is_no_longer_owned_commits_nothing<W: World>(db: &W) {
    let messages = db.messages().await;
    let ids = send::<W>(&messages, 3).await;
    let (gate, calls) = (Gate::closed(), Sizes::default());
    let (door, seen) = (gate.clone(), calls.clone());
    let executor = builder::<W>(&messages)
        .handle_batch("many", BatchOptions::new(3).wait(Duration::from_millis(200)), move |batch| {
            let (door, seen) = (door.clone(), seen.clone());
            Box::pin(async move {
                seen.lock().unwrap().push(batch.jobs().len());
                door.pass().await;
                for job in batch.jobs() {
                    W::note(batch.transaction().await?, &job.id.to_string()).await?;
                }
                Ok(batch.all_done())
            })
        })
        .start()
        .await
        .unwrap();
    crate::support::eventually(PATIENCE, async || calls.lock().unwrap().first() == Some(&3)).await;
    let cancelled = db.jobs().cancel(&jobwright::admin::JobFilter::ids([ids[1]]), false).await.unwrap();
    assert_eq!(cancelled.total(), 1);
    gate.open();
    db.drained().await;
    let metrics = executor.telemetry().metrics();
    assert_eq!(metrics.released["rolled_back"], 3, "{metrics:?}");
    assert_eq!(metrics.fenced.get("released"), Some(&1), "the cancelled one: {metrics:?}");
    executor.shutdown(Duration::ZERO).await.unwrap();
    db.each_once(&[ids[0], ids[2]]).await;
}

pub(crate) async fn a_shutdown_runs_jobs_that_wait_for_their_batch<W: World>(db: &W) {
    let messages = db.messages().await;
    let ids = send::<W>(&messages, 2).await;
    let sizes = Sizes::default();
    let executor = noting::<W>(&messages, full(10), &sizes, |_, _| Ok(Outcome::Done)).await;
    crate::support::eventually(PATIENCE, async || executor.stats().in_flight == 2).await;
    assert_eq!(*sizes.lock().unwrap(), [] as [usize; 0]);
    let stats = executor.shutdown(PATIENCE).await.unwrap();
    assert_eq!((stats.done, stats.released), (2, 0));
    db.each_once(&ids).await;
    assert_eq!(sizes.lock().unwrap().iter().sum::<usize>(), 2);
}

pub(crate) async fn a_shutdown_without_patience_gives_a_batch_back<W: World>(db: &W) {
    let messages = db.messages().await;
    let ids = send::<W>(&messages, 2).await;
    let executor = builder::<W>(&messages)
        .handle_batch("many", full(2), |_| Box::pin(std::future::pending()))
        .start()
        .await
        .unwrap();
    crate::support::eventually(PATIENCE, async || executor.stats().in_flight == 2).await;
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().released, 2);
    for id in ids {
        let detail = db.jobs().detail(id).await;
        assert_eq!((detail.summary.state, detail.summary.attempt), (JobState::Waiting, 0));
    }
}

/// Jobs come straight from the commit, without a claim.
pub(crate) async fn jobs_handed_over_gather_too<W: World>(db: &W) {
    let messages = db.messages().await;
    let sizes = Sizes::default();
    let executor = noting::<W>(&messages, full(5), &sizes, |_, _| Ok(Outcome::Done)).await;
    // An executor takes jobs straight from a commit only after its first poll.
    crate::support::eventually(PATIENCE, async || {
        send::<W>(&messages, 5).await;
        db.drained().await;
        executor.stats().handed_over > 0
    })
    .await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    assert!(sizes.lock().unwrap().iter().all(|size| *size == 5), "{sizes:?}");
}

pub(crate) async fn impossible_batches_are_refused<W: World>(db: &W) {
    let messages = db.messages().await;
    for (options, why) in [
        (BatchOptions::new(0), "0 jobs"),
        (BatchOptions::new(1001), "1001 jobs"),
        (full(1).wait(Duration::from_secs(61)), "61s"),
    ] {
        let started = builder::<W>(&messages)
            .handle_batch("many", options, |batch| Box::pin(async move { Ok(batch.all_done()) }))
            .start()
            .await;
        let error = started.err().unwrap();
        assert!(error.kind() == ErrorKind::Config && error.to_string().contains(why), "{error}");
    }
}
