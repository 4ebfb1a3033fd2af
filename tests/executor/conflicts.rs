//! Conflicts are run again at once, and errors are classified by the application.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use jobwright::admin::JobState;
use jobwright::{CommandExecutor, JobError, KindOptions, NewJob, Outcome, PgTransaction, RetryAdvice, RetryPolicy};

use crate::support::TestDb as _;
use crate::support::environment::{World, at_once, quick};
use crate::support::postgres::Pg;

/// Each time but the last the handler writes a line and then meets a conflict.
pub(crate) async fn a_conflict_is_run_again_within_its_attempt<W: World>(db: &W) {
    let messages = db.messages().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let attempts = seen.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle_with("contended", move |cx| {
            let attempts = attempts.clone();
            Box::pin(async move {
                let (attempt, version) = (cx.job().attempt, cx.job().version);
                W::note(cx.transaction().await?, "done").await?;
                cx.send(NewJob::json("elsewhere", &()).queue("elsewhere"))?;
                let mut attempts = attempts.lock().unwrap();
                attempts.push((attempt, version));
                if attempts.len() < 4 { Err(JobError::conflict("lost")) } else { Ok(Outcome::Done) }
            })
        })
        .start()
        .await
        .unwrap();
    let id = messages.send(NewJob::json("contended", &()).max_attempts(1)).await.unwrap();
    db.gone(id).await;
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen, [(1, seen[0].1); 4], "one attempt and one claim");
    assert_eq!(db.ledger().await.into_iter().collect::<Vec<_>>(), [("done".to_owned(), 1)]);
    assert_eq!(db.jobs().count(JobState::Waiting).await, 1, "what a lost try sent is not sent");
    let stats = executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!((stats.conflicts, stats.failed, stats.done, stats.refused), (3, 0, 1, 0));
}

pub(crate) async fn an_endless_conflict_is_a_failure<W: World>(db: &W) {
    let messages = db.messages().await;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick().conflict_retries(2))
        .kind_options("contended", at_once())
        .handle("contended", move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Err(JobError::conflict("lost")) }
        })
        .start()
        .await
        .unwrap();
    let id = messages.send(NewJob::json("contended", &()).max_attempts(2)).await.unwrap();
    db.reaches(id, JobState::Dead).await;
    assert_eq!(runs.load(Ordering::Relaxed), 2 * 3, "each attempt is run once and twice again");
    let errors = db.jobs().detail(id).await.errors;
    assert_eq!(errors.iter().map(|error| error.error.as_str()).collect::<Vec<_>>(), ["lost", "lost"]);
    executor.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn a_stop_does_not_wait_for_a_conflict<W: World>(db: &W) {
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick().conflict_retries(u32::MAX))
        .handle("contended", |_| async { Err(JobError::conflict("lost")) })
        .start()
        .await
        .unwrap();
    let id = messages.send(NewJob::json("contended", &())).await.unwrap();
    db.reaches(id, JobState::Running).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    let detail = db.jobs().detail(id).await;
    assert_eq!((detail.summary.state, detail.summary.attempt), (JobState::Waiting, 0), "given back at no cost");
}

pub(crate) async fn the_classifier_decides_the_meaning_of_an_error<W: World>(db: &W) {
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .classify(|error, job| match error.message() {
            text if text.starts_with("no such customer") => RetryAdvice::Never,
            _ if job.kind == "later" => RetryAdvice::After(Duration::from_secs(3600)),
            _ => error.advice(),
        })
        .kind_options("lenient", at_once().classify(|_, _| RetryAdvice::ByPolicy))
        .handle("fails", |_| async { Err(JobError::new("no such customer: 17")) })
        .handle("later", |_| async { panic!("broken") })
        .handle("lenient", |_| async { Err(JobError::fatal("no such customer: 18")) })
        .start()
        .await
        .unwrap();
    let send = async |kind: &str| messages.send(NewJob::json(kind, &()).max_attempts(3)).await.unwrap();
    let (fails, later, lenient) = (send("fails").await, send("later").await, send("lenient").await);
    for (id, state, attempts) in [(fails, JobState::Dead, 1), (later, JobState::Timer, 1), (lenient, JobState::Dead, 3)]
    {
        db.reaches(id, state).await;
        assert_eq!(db.jobs().detail(id).await.summary.attempt, attempts);
    }
    executor.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn a_queue_has_a_retry_policy<W: World>(db: &W) {
    let messages = db.messages().await;
    let hour = RetryPolicy::Fixed(Duration::from_secs(3600));
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .queue("slow", 5)
        .queue_retry("slow", hour)
        .kind_options("own", at_once())
        .kind_options("plain", KindOptions::default())
        .handle("own", |_| async { Err(JobError::new("no")) })
        .handle("plain", |_| async { Err(JobError::new("no")) })
        .start()
        .await
        .unwrap();
    let send = async |kind: &str| messages.send(NewJob::json(kind, &()).queue("slow").max_attempts(2)).await.unwrap();
    let (plain, own) = (send("plain").await, send("own").await);
    db.reaches(own, JobState::Dead).await;
    db.reaches(plain, JobState::Timer).await;
    let due = db.jobs().detail(plain).await.summary.due_at.unwrap();
    assert!(due.duration_since(jiff::Timestamp::now()).as_secs() > 3000, "{due}");
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Runs a handler at a strict isolation level, while another transaction conflicts with it the first time, before or after its write.
async fn disturbed(isolation: &'static str, work: &'static str, disturbance: &'static str) {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    db.raw("create table {schema}.account (id int primary key, balance int); insert into {schema}.account values (1, 5), (2, 5)")
        .await;
    let db = Arc::new(db);
    let messages = db.messages().await;
    let (place, runs) = (db.clone(), Arc::new(AtomicU32::new(0)));
    let counted = runs.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle_with("transfer", move |cx| {
            let (place, counted) = (place.clone(), counted.clone());
            Box::pin(async move {
                let first = counted.fetch_add(1, Ordering::Relaxed) == 0;
                let transaction = cx.transaction().await?;
                let schema = place.schema();
                transaction
                    .batch_execute(&format!(
                        "set transaction isolation level {isolation}; set local search_path = \"{schema}\"; \
                         select sum(balance) from account"
                    ))
                    .await?;
                if first {
                    place.client().await.batch_execute(disturbance).await?;
                }
                transaction.batch_execute(work).await?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    let id = messages.send(NewJob::json("transfer", &()).max_attempts(1)).await.unwrap();
    db.gone(id).await;
    let stats = executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!((runs.load(Ordering::Relaxed), stats.conflicts, stats.failed), (2, 1, 0));
    let row = db.client().await.query_one("select balance from account where id = 1", &[]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 6, "the handler's write took effect once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_serialization_failure_of_a_statement_is_run_again() {
    let somebody = "update account set balance = 5 where id = 1";
    disturbed("repeatable read", "update account set balance = balance + 1 where id = 1", somebody).await;
}

/// Returns the driver's error as an application wraps it.
async fn book(transaction: &PgTransaction, context: bool) -> anyhow::Result<()> {
    let booked = transaction.batch_execute("update account set balance = balance + 1 where id = 1").await;
    if context { booked.context("can't book") } else { Ok(booked?) }
}

/// `anyhow` hides the type of the outermost error, with and without added context.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_serialization_failure_inside_an_anyhow_error_is_run_again() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    db.raw(
        "create table {schema}.account (id int primary key, balance int); insert into {schema}.account values (1, 5)",
    )
    .await;
    let db = Arc::new(db);
    let messages = db.messages().await;
    let (place, runs) = (db.clone(), Arc::new(AtomicU32::new(0)));
    let counted = runs.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle_with("transfer", move |cx| {
            let (place, counted) = (place.clone(), counted.clone());
            Box::pin(async move {
                let run = counted.fetch_add(1, Ordering::Relaxed);
                let transaction = cx.transaction().await?;
                let schema = place.schema();
                transaction
                    .batch_execute(&format!(
                        "set transaction isolation level repeatable read; set local search_path = \"{schema}\"; \
                         select balance from account"
                    ))
                    .await?;
                if run < 2 {
                    place.client().await.batch_execute("update account set balance = 5").await?;
                }
                book(transaction, run == 1).await?;
                Ok(Outcome::Done)
            })
        })
        .handle("refused", |_| async { Err(anyhow::anyhow!("no such customer").context("can't book"))? })
        .start()
        .await
        .unwrap();
    let id = messages.send(NewJob::json("transfer", &()).max_attempts(1)).await.unwrap();
    db.gone(id).await;
    let refused = messages.send(NewJob::json("refused", &()).max_attempts(1)).await.unwrap();
    db.reaches(refused, JobState::Dead).await;
    let error = db.jobs().detail(refused).await.errors.remove(0);
    assert_eq!(error.error, "can't book");
    assert!(error.detail.is_some_and(|causes| causes.contains("no such customer")));
    let stats = executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!((runs.load(Ordering::Relaxed), stats.conflicts, stats.done), (3, 2, 1));
}

/// The server detects the conflict when the handler is done: the commit is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_serialization_failure_of_the_commit_is_run_again() {
    let somebody = "begin isolation level serializable; select sum(balance) from account; \
                    update account set balance = 9 where id = 2; commit";
    disturbed("serializable", "update account set balance = balance + 1 where id = 1", somebody).await;
}
