//! Waiting until a job is over, whatever its end is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jobwright::admin::{JobFilter, JobState};
use jobwright::{Awaited, CommandExecutor, Job, JobError, JobId, Keep, MessageServices, NewJob, Outcome};

use crate::support::SqlDb;
use crate::support::environment::{Gate, PATIENCE, World, at_once, quick};

/// Adds handlers for each way to end, and starts.
async fn start<W: World>(messages: &MessageServices<W::Store>) -> CommandExecutor<W::Store> {
    CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle("silent", |_| async { Ok(Outcome::Done) })
        .handle_with("sum", |cx| {
            Box::pin(async move {
                cx.result(&42)?;
                Ok(Outcome::Done)
            })
        })
        .handle("unwanted", |_| async { Ok(Outcome::Cancel("nobody wants it".to_owned())) })
        .handle("dies", |_| async { Err(JobError::fatal("no use")) })
        .start()
        .await
        .unwrap()
}

/// Without history, only some ends have left a trace.
pub(crate) async fn each_end_is_an_end<W: World>(db: &W) {
    let messages = db.messages().await;
    // Sees the same jobs end, and hears of none.
    let elsewhere = db.messages().await;
    let executor = start::<W>(&messages).await;
    let send = async |kind: &str| messages.send(NewJob::json(kind, &())).await.unwrap();
    for who in [&messages, &elsewhere] {
        let ended = async |id: JobId| {
            let awaited = who.wait_for_end(id, PATIENCE).await.unwrap();
            assert!(awaited.is_over(), "{awaited:?}");
            awaited
        };
        assert!(matches!(ended(send("silent").await).await, Awaited::NotKept));
        assert!(matches!(ended(send("sum").await).await, Awaited::Done), "its result is there");
        assert!(matches!(ended(send("unwanted").await).await, Awaited::NotKept));
        let dead = send("dies").await;
        assert!(matches!(ended(dead).await, Awaited::Dead(reason) if reason == "no use"));
        messages.admin().delete(&JobFilter::ids([dead])).await.unwrap();
        assert!(matches!(ended(dead).await, Awaited::NotKept));
        assert!(matches!(ended(JobId::new()).await, Awaited::NotKept), "it never existed");
    }
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// While a caller waits.
pub(crate) async fn what_an_operator_removes_is_over<W: World>(db: &W) {
    let messages = db.messages().await;
    let [cancelled, deleted] = [
        messages.send(NewJob::json("for-nobody", &())).await.unwrap(),
        messages.send(NewJob::json("for-nobody", &())).await.unwrap(),
    ];
    let wait = async |id| messages.wait_for_end(id, PATIENCE).await.unwrap();
    let remove = async {
        // Both are waited for.
        for id in [cancelled, deleted] {
            let pending = messages.wait_for_end(id, Duration::from_millis(50)).await.unwrap();
            assert!(!pending.is_over(), "{pending:?}");
        }
        messages.admin().cancel(&JobFilter::ids([cancelled])).await.unwrap();
        messages.admin().delete(&JobFilter::ids([deleted])).await.unwrap();
    };
    let (first, second, ()) = tokio::join!(wait(cancelled), wait(deleted), remove);
    assert!(matches!((&first, &second), (Awaited::NotKept, Awaited::NotKept)), "{first:?}, {second:?}");
}

pub(crate) async fn a_job_that_is_not_over_is_pending<W: World>(db: &W) {
    let messages = db.messages().await;
    let waiting = messages.send(NewJob::json("for-nobody", &())).await.unwrap();
    let timer = messages.send(NewJob::json("for-nobody", &()).delay(Duration::from_secs(3600))).await.unwrap();
    let suspended = messages.send(NewJob::json("for-nobody", &())).await.unwrap();
    messages.admin().suspend(&JobFilter::ids([suspended])).await.unwrap();
    let gate = Gate::closed();
    let opens = gate.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle("long", move |_| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                Ok(Outcome::Done)
            }
        })
        .start()
        .await
        .unwrap();
    let running = messages.send(NewJob::json("long", &())).await.unwrap();
    db.reaches(running, JobState::Running).await;
    for id in [waiting, timer, suspended, running] {
        for timeout in [Duration::ZERO, Duration::from_millis(50)] {
            let awaited = messages.wait_for_end(id, timeout).await.unwrap();
            assert!(matches!(awaited, Awaited::Pending) && !awaited.is_over(), "{awaited:?}");
        }
    }
    opens.open();
    assert!(messages.wait_for_end(running, Duration::MAX).await.unwrap().is_over());
    executor.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn a_failed_attempt_is_no_end<W: World>(db: &W) {
    let messages = db.messages().await;
    let attempts = Arc::new(AtomicU32::new(0));
    let counted = attempts.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .kind_options("third", at_once())
        .handle("third", move |job: Job| {
            counted.store(job.attempt, Ordering::SeqCst);
            async move { if job.attempt < 3 { Err(JobError::new("not yet")) } else { Ok(Outcome::Done) } }
        })
        .start()
        .await
        .unwrap();
    let id = messages.send(NewJob::json("third", &())).await.unwrap();
    assert!(messages.wait_for_end(id, PATIENCE).await.unwrap().is_over());
    assert_eq!(attempts.load(Ordering::SeqCst), 3);
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Also to a process that keeps no history itself.
pub(crate) async fn the_history_tells_how_a_job_ended<W: World + SqlDb>(db: &W) {
    let messages = MessageServices::new(db.remembering(Keep::All).await, &db.config());
    let frugal = db.messages().await;
    let executor = start::<W>(&messages).await;
    let send = async |kind: &str| messages.send(NewJob::json(kind, &())).await.unwrap();
    let deleted = send("for-nobody").await;
    messages.admin().delete(&JobFilter::ids([deleted])).await.unwrap();
    let [silent, unwanted] = [send("silent").await, send("unwanted").await];
    for who in [&messages, &frugal] {
        let ended = async |id: JobId| who.wait_for_end(id, PATIENCE).await.unwrap();
        assert!(matches!(ended(silent).await, Awaited::Done));
        assert!(matches!(ended(unwanted).await, Awaited::Cancelled));
        assert!(matches!(ended(deleted).await, Awaited::Deleted));
    }
    assert!(matches!(messages.wait_for_end(JobId::new(), PATIENCE).await.unwrap(), Awaited::Unknown));
    executor.shutdown(Duration::ZERO).await.unwrap();
}
