//! Jobs that fail.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobwright::admin::{JobDetail, JobState};
use jobwright::{CommandExecutor, JobError, JobId, NewJob, Outcome, Payload, RetryPolicy};

use crate::support::environment::{World, at_once, quick};
use crate::support::eventually;
use crate::support::postgres::Pg;

fn errors(detail: &JobDetail) -> Vec<(u32, &str)> {
    detail.errors.iter().map(|error| (error.attempt, error.error.as_str())).collect()
}

/// Runs one job with a closure, retried at once, until it is gone or dead. Returns its final state.
async fn fails<W: World>(
    db: &W,
    job: NewJob,
    ends: impl Fn(u32) -> Result<Outcome, JobError> + Clone + Send + Sync + 'static,
) -> Option<JobDetail> {
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .kind_options("fails", at_once())
        .handle_with("fails", move |cx| {
            let ends = ends.clone();
            Box::pin(async move {
                let line = format!("attempt {}", cx.job().attempt);
                W::note(cx.transaction().await?, &line).await?;
                ends(cx.job().attempt)
            })
        })
        .start()
        .await
        .unwrap();
    let id = messages.send(job).await.unwrap();
    let detail = end_of(db, id).await;
    let stats = executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!(stats.refused, 0);
    detail
}

/// Waits until a job is gone or dead.
async fn end_of<W: World>(db: &W, id: JobId) -> Option<JobDetail> {
    let jobs = db.jobs();
    crate::support::eventually(crate::support::environment::PATIENCE, async || {
        jobs.state(id).await.is_none_or(|state| state == JobState::Dead)
    })
    .await;
    jobs.show(id).await.unwrap()
}

fn job(attempts: u32) -> NewJob {
    NewJob::json("fails", &()).max_attempts(attempts)
}

pub(crate) async fn an_error_rolls_back_and_is_tried_again<W: World>(db: &W) {
    let gone =
        fails(db, job(5), |attempt| if attempt < 3 { Err(JobError::new("no")) } else { Ok(Outcome::Done) }).await;
    assert!(gone.is_none());
    let lines: Vec<_> = db.ledger().await.into_iter().collect();
    assert_eq!(lines, [("attempt 3".to_owned(), 1)]);
}

pub(crate) async fn attempts_end_as_a_dead_letter_with_their_history<W: World>(db: &W) {
    let detail = fails(db, job(3), |attempt| Err(JobError::new(format!("no {attempt}")).detail("why")))
        .await
        .expect("a dead letter");
    assert_eq!(errors(&detail), [(1, "no 1"), (2, "no 2"), (3, "no 3")]);
    assert_eq!(detail.errors[0].detail.as_deref(), Some("why"));
    assert_eq!((detail.summary.attempt, detail.summary.last_error.as_deref()), (3, Some("no 3")));
    let (_, reason) = detail.dead.unwrap();
    assert!(!reason.is_empty());
    assert!(db.ledger().await.is_empty());
}

pub(crate) async fn each_outcome_has_its_effect<W: World>(db: &W) {
    // As an error, it costs an attempt.
    let retried = fails(db, job(2), |_| Ok(Outcome::Retry)).await.expect("a dead letter");
    assert_eq!(errors(&retried).len(), 2);
    // A snooze costs no attempt, so it would never end.
    let times = Arc::new(Mutex::new(Vec::new()));
    let seen = times.clone();
    let snoozed = fails(db, job(1), move |attempt| {
        let mut seen = seen.lock().unwrap();
        seen.push(attempt);
        Ok(if seen.len() < 4 { Outcome::Snooze(Duration::from_millis(1)) } else { Outcome::Done })
    });
    assert!(snoozed.await.is_none());
    assert_eq!(*times.lock().unwrap(), [1, 1, 1, 1]);
    assert!(fails(db, job(5), |_| Ok(Outcome::Cancel("unwanted".to_owned()))).await.is_none());
    let dead = fails(db, job(5), |_| Ok(Outcome::Dead("hopeless".to_owned()))).await.expect("a dead letter");
    assert_eq!(errors(&dead), [(1, "hopeless")]);
    // Only the attempt that was done has left anything.
    assert_eq!(db.ledger().await.into_iter().collect::<Vec<_>>(), [("attempt 1".to_owned(), 1)]);
}

pub(crate) async fn errors_say_whether_to_try_again<W: World>(db: &W) {
    let dead = fails(db, job(5), |_| Err(JobError::fatal("never"))).await.expect("a dead letter");
    assert_eq!(errors(&dead), [(1, "never")]);

    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .kind_options("later", at_once())
        .handle("later", |_| async { Err(JobError::retry_after("busy", Duration::from_secs(3600))) })
        .start()
        .await
        .unwrap();
    let id = messages.send(NewJob::json("later", &())).await.unwrap();
    db.reaches(id, JobState::Timer).await;
    let due = db.jobs().detail(id).await.summary.due_at.unwrap();
    let wait = due.duration_since(jiff::Timestamp::now()).as_secs();
    assert!((3500..=3600).contains(&wait), "{wait}");
    executor.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn the_retry_policy_sets_the_delay<W: World>(db: &W) {
    let messages = db.messages().await;
    let hours = |n: u64| Duration::from_secs(n * 3600);
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .kind_options("fails", at_once().retry(RetryPolicy::Intervals(vec![hours(1), hours(5)])))
        .handle("fails", |_| async { Err(JobError::new("no")) })
        .start()
        .await
        .unwrap();
    let id = messages.send(job(5)).await.unwrap();
    for (attempt, hours) in [(1, 1), (2, 5), (3, 5)] {
        let jobs = db.jobs();
        crate::support::eventually(crate::support::environment::PATIENCE, async || {
            let detail = jobs.detail(id).await;
            detail.summary.state == JobState::Timer && detail.summary.attempt == attempt
        })
        .await;
        let due = jobs.detail(id).await.summary.due_at.unwrap();
        let wait = due.duration_since(jiff::Timestamp::now()).as_secs();
        assert!((hours * 3600 - 60..=hours * 3600).contains(&wait), "attempt {attempt}: {wait} s");
        // An operator need not wait for the delay.
        assert_eq!(jobs.retry(&jobwright::admin::JobFilter::ids([id]), false).await.unwrap().total(), 1);
        jobs.notify(&[jobwright::internal::engine::Hint::Any]).await.unwrap();
    }
    executor.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn a_panic_is_a_failure_that_names_its_place<W: World>(db: &W) {
    let dead = fails(db, job(2), |attempt| panic!("broken {attempt}")).await.expect("a dead letter");
    for (attempt, text) in errors(&dead) {
        assert!(text.contains(&format!("broken {attempt}")) && text.contains("failures.rs:"), "{text}");
    }
    assert_eq!(dead.errors.len(), 2);
    assert!(db.ledger().await.is_empty());
    // Its connection and its slot are usable, and other jobs run.
    assert!(fails(db, job(1), |_| Ok(Outcome::Done)).await.is_none());
}

/// A closure may do something before it returns a future that could be watched.
#[expect(clippy::manual_assert, reason = "the panic stands outside of the future")]
pub(crate) async fn a_panic_before_there_is_a_future_is_one_too<W: World>(db: &W) {
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle("fails", |job| {
            if job.attempt > 0 {
                panic!("all is lost");
            }
            async { Ok(Outcome::Done) }
        })
        .start()
        .await
        .unwrap();
    let id = messages.send(NewJob::json("fails", &()).max_attempts(1)).await.unwrap();
    let dead = end_of(db, id).await.unwrap();
    assert!(errors(&dead)[0].1.contains("all is lost"), "{dead:?}");
    executor.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn a_panic_of_a_blocking_handler_is_one_too<W: World>(db: &W) {
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .queue("default", 1)
        .kind_options("fails", at_once())
        .handle_blocking("fails", |_| panic!("broken"))
        .handle("light", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    let id = messages.send(job(2)).await.unwrap();
    let light = messages.send(NewJob::json("light", &())).await.unwrap();
    let dead = end_of(db, id).await.expect("a dead letter");
    assert!(errors(&dead).iter().all(|(_, text)| text.contains("broken") && text.contains("failures.rs:")), "{dead:?}");
    db.gone(light).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn a_timeout_is_a_failure<W: World>(db: &W) {
    let messages = db.messages().await;
    let options = at_once().timeout(Duration::from_millis(100));
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .kind_options("fails", options.clone())
        .kind_options("blocks", options)
        .handle_with("fails", |cx| {
            Box::pin(async move {
                W::note(cx.transaction().await?, "undone").await?;
                std::future::pending().await
            })
        })
        .handle_blocking("blocks", |_| {
            std::thread::sleep(Duration::from_millis(300));
            Ok(Outcome::Done)
        })
        .start()
        .await
        .unwrap();
    for kind in ["fails", "blocks"] {
        let id = messages.send(NewJob::json(kind, &()).max_attempts(2)).await.unwrap();
        let dead = end_of(db, id).await.expect("a dead letter");
        assert_eq!(dead.errors.len(), 2);
        assert!(errors(&dead).iter().all(|(_, text)| text.contains("100ms")), "{dead:?}");
    }
    assert!(db.ledger().await.is_empty());
    executor.shutdown(Duration::ZERO).await.unwrap();
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Order {
    number: u32,
}

impl<S: jobwright::Store> jobwright::Command<S> for Order {
    const KIND: &'static str = "order";
    type State = ();

    fn options() -> jobwright::KindOptions {
        at_once()
    }

    async fn execute(self, _: &mut jobwright::JobContext<'_, (), S>) -> Result<Outcome, JobError> {
        Ok(Outcome::Done)
    }
}

/// A sender of another version. The job is retried, because a newer node may be able to read it.
pub(crate) async fn an_unreadable_payload_becomes_a_dead_letter<W: World>(db: &W) {
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone()).config(quick()).command::<Order>().start().await.unwrap();
    let bytes = Payload::Bytes { content_type: "application/json".to_owned(), body: b"{".to_vec() };
    for job in [NewJob::json("order", &serde_json::json!({ "number": "one" })), NewJob::new("order", bytes)] {
        let id = messages.send(job.max_attempts(2)).await.unwrap();
        let dead = end_of(db, id).await.expect("a dead letter");
        assert_eq!(dead.errors.len(), 2);
        assert!(errors(&dead).iter().all(|(_, text)| text.contains("payload") && text.contains("order")), "{dead:?}");
    }
    let good = messages.send(Order { number: 1 }).await.unwrap();
    db.gone(good).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn an_attempt_near_the_largest_number_ends_as_a_dead_letter<W: World>(db: &W) {
    let messages = db.messages().await;
    let id = messages.send(job(1_000_000_000)).await.unwrap();
    db.set_counters(id, 1, i32::MAX as u32 - 1).await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle("fails", |_| async { Err(JobError::new("no")) })
        .start()
        .await
        .unwrap();
    let dead = end_of(db, id).await.expect("a dead letter");
    assert_eq!(dead.summary.attempt, i32::MAX as u32);
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Its transaction is dropped, which cancels the statement. A rollback would wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_does_not_wait_for_a_statement_of_its_handler() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let sleep = format!("select pg_sleep(60) /* {} */", db.schema());
    let statement = sleep.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .kind_options("sleeps", at_once().timeout(Duration::from_millis(200)))
        .handle_with("sleeps", move |cx| {
            let statement = statement.clone();
            Box::pin(async move {
                cx.transaction().await?.batch_execute(&statement).await?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    let id = messages.send(NewJob::json("sleeps", &()).max_attempts(1)).await.unwrap();
    tokio::time::timeout(Duration::from_secs(15), db.reaches(id, JobState::Dead)).await.unwrap();
    let client = db.client().await;
    let asleep = "select count(*) from pg_stat_activity where state = 'active' and query = $1";
    eventually(Duration::from_secs(15), async || {
        client.query_one(asleep, &[&sleep]).await.unwrap().get::<_, i64>(0) == 0
    })
    .await;
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
}
