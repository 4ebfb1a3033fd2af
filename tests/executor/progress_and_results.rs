//! Progress that handlers report, and results that they leave.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobwright::admin::{JobFilter, JobState};
use jobwright::{Awaited, CommandExecutor, ErrorKind, Job, JobError, JobId, Keep, MessageServices, NewJob, Outcome};

use crate::support::SqlDb;
use crate::support::environment::{PATIENCE, World, at_once, quick};

/// A handler dies half-way, and its next attempt continues from there.
pub(crate) async fn the_next_attempt_goes_on_from_the_checkpoint<W: World>(db: &W) {
    let messages = db.messages().await;
    let begun = Arc::new(Mutex::new(Vec::new()));
    let seen = begun.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .kind_options("import", at_once())
        .handle_with("import", move |cx| {
            let seen = seen.clone();
            Box::pin(async move {
                let from: u64 = cx.checkpoint().await?.unwrap_or(0);
                seen.lock().unwrap().push(from);
                for row in from..10 {
                    cx.progress(row as u8 * 10, format!("row {row}")).await?;
                    cx.save_checkpoint(&row).await?;
                    if row == 4 && from == 0 {
                        return Err(JobError::new("the line broke"));
                    }
                }
                W::note(cx.transaction().await?, "imported").await?;
                Ok(Outcome::Snooze(Duration::from_secs(3600)))
            })
        })
        .start()
        .await
        .unwrap();
    let id = messages.send(NewJob::json("import", &())).await.unwrap();
    db.reaches(id, JobState::Timer).await;
    let jobs = db.jobs();
    crate::support::eventually(PATIENCE, async || begun.lock().unwrap().len() == 2).await;
    assert_eq!(*begun.lock().unwrap(), [0, 4]);
    db.reaches(id, JobState::Timer).await;
    let progress = jobs.progress(id).await.unwrap().unwrap();
    assert_eq!((progress.percent, progress.note.as_deref()), (Some(90), Some("row 9")));
    assert!(db.ledger().await.is_empty(), "only the transaction was rolled back");
    executor.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn too_much_to_keep_is_refused<W: World>(db: &W) {
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle_with("large", |cx| {
            Box::pin(async move {
                let refused = cx.save_checkpoint(&"x".repeat(16 * 1024)).await.unwrap_err();
                assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().contains("16384"), "{refused}");
                let refused = cx.result(&"x".repeat(1024 * 1024)).unwrap_err();
                assert!(refused.is_invalid() && refused.to_string().contains("max_payload"), "{refused}");
                cx.progress(200, "ä".repeat(10_000)).await?;
                cx.result(&1)?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    let id = messages.send(NewJob::json("large", &()).max_attempts(1)).await.unwrap();
    db.gone(id).await;
    let progress = db.jobs().progress(id).await.unwrap().unwrap();
    assert_eq!((progress.percent, progress.note.unwrap().len() <= 1024), (Some(100), true));
    executor.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn progress_of_a_lost_job_is_refused<W: World>(db: &W) {
    let messages = db.messages().await;
    let told = Arc::new(Mutex::new(None));
    let (said, jobs) = (told.clone(), db.jobs());
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle_with("cancelled", move |cx| {
            let (said, jobs) = (said.clone(), jobs.clone());
            Box::pin(async move {
                jobs.cancel(&jobwright::admin::JobFilter::ids([cx.job().id]), false).await?;
                let refused = cx.progress(1, "still here").await.err().map(|error| error.kind());
                *said.lock().unwrap() = refused;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    messages.send(NewJob::json("cancelled", &())).await.unwrap();
    crate::support::eventually(PATIENCE, async || *told.lock().unwrap() == Some(ErrorKind::Aborted)).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn a_result_can_be_waited_for<W: World>(db: &W) {
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .queue("default", 5)
        .handle_with("sum", |cx| {
            Box::pin(async move {
                let numbers: Vec<i64> = cx.job().payload.decode()?;
                cx.result(&numbers.iter().sum::<i64>())?;
                Ok(Outcome::Done)
            })
        })
        // The result of a failed attempt is not kept.
        .handle_with("fails", |cx| {
            Box::pin(async move {
                cx.result(&1)?;
                Err(JobError::fatal("no sum"))
            })
        })
        .handle("silent", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    let send = async |kind: &str| messages.send(NewJob::json(kind, &[1, 2, 39])).await.unwrap();
    let waited = async |id: JobId| messages.wait_for_result(id, PATIENCE).await.unwrap();
    let Awaited::Result(result) = waited(send("sum").await).await else { panic!("no result") };
    assert_eq!((result.kind.as_str(), result.payload.decode::<i64>().unwrap()), ("sum", 42));
    let fails = send("fails").await;
    assert!(matches!(waited(fails).await, Awaited::Dead(reason) if reason == "no sum"));
    assert!(db.jobs().result(fails).await.unwrap().is_none());
    // No history is kept here, so it is unknown how the job ended, or that it ever existed.
    assert!(matches!(waited(send("silent").await).await, Awaited::NotKept));
    assert!(matches!(waited(JobId::new()).await, Awaited::NotKept));
    let unknown = send("nobody-knows-it").await;
    let pending = messages.wait_for_result(unknown, Duration::from_millis(50)).await.unwrap();
    assert!(matches!(pending, Awaited::Pending), "{pending:?}");
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Where the history is kept, the reasons why a job left no result can be told apart, also by a process that keeps no history itself.
pub(crate) async fn the_history_tells_why_a_job_left_no_result<W: World + SqlDb>(db: &W) {
    let keeping = async |keep| MessageServices::new(db.remembering(keep).await, &db.config());
    let messages = keeping(Keep::All).await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .kind_options("silent", at_once())
        .handle("silent", |job: Job| async move {
            if job.attempt == 1 { Err(JobError::new("at first")) } else { Ok(Outcome::Done) }
        })
        .handle("unwanted", |_| async { Ok(Outcome::Cancel("nobody wants it".to_owned())) })
        .handle("dies", |_| async { Err(JobError::fatal("no use")) })
        .start()
        .await
        .unwrap();
    let send = async |kind: &str| messages.send(NewJob::json(kind, &())).await.unwrap();
    let [silent, unwanted, dies] = [send("silent").await, send("unwanted").await, send("dies").await];
    for id in [silent, unwanted] {
        db.gone(id).await;
    }
    db.reaches(dies, JobState::Dead).await;
    let elsewhere = |id| JobFilter::ids([id]);
    let [removed, called_off] = [send("for-nobody").await, send("for-nobody").await];
    messages.admin().delete(&elsewhere(removed)).await.unwrap();
    messages.admin().cancel(&elsewhere(called_off)).await.unwrap();

    let [frugal, failures] = [keeping(Keep::Off).await, keeping(Keep::Failed).await];
    for who in [&messages, &frugal, &failures] {
        let waited = async |id: JobId| who.wait_for_result(id, PATIENCE).await.unwrap();
        assert!(matches!(waited(silent).await, Awaited::Done));
        assert!(matches!(waited(unwanted).await, Awaited::Cancelled));
        assert!(matches!(waited(called_off).await, Awaited::Cancelled));
        assert!(matches!(waited(removed).await, Awaited::Deleted));
        assert!(matches!(waited(dies).await, Awaited::Dead(reason) if reason == "no use"));
    }
    // Only a process that keeps the whole history may conclude something from a missing entry.
    let waited = async |who: &MessageServices<W::Store>, id| who.wait_for_result(id, PATIENCE).await.unwrap();
    assert!(matches!(waited(&messages, JobId::new()).await, Awaited::Unknown));
    assert!(matches!(waited(&failures, JobId::new()).await, Awaited::NotKept));
    // Deleted by a process that keeps no history: the job's death is the last known entry.
    frugal.admin().delete(&elsewhere(dies)).await.unwrap();
    assert!(matches!(waited(&messages, dies).await, Awaited::Dead(reason) if reason == "no use"));
    assert!(matches!(waited(&failures, dies).await, Awaited::NotKept), "it may have been tried again, and be done");
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// A result is kept as long as the store's setting says, unless the handler says otherwise.
pub(crate) async fn a_result_is_kept_as_long_as_asked<W: World>(db: &W) {
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle_with("day", |cx| {
            Box::pin(async move {
                cx.result(&())?;
                Ok(Outcome::Done)
            })
        })
        .handle_with("hour", |cx| {
            Box::pin(async move {
                cx.result_for(&(), Duration::from_secs(3600))?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    for (kind, hours) in [("day", 24), ("hour", 1)] {
        let id = messages.send(NewJob::json(kind, &())).await.unwrap();
        let Awaited::Result(result) = messages.wait_for_result(id, PATIENCE).await.unwrap() else { panic!("none") };
        let kept = result.expires_at.duration_since(result.created_at);
        assert_eq!((kept.as_secs() + 59) / 60, hours * 60, "{kept:?}");
    }
    executor.shutdown(Duration::ZERO).await.unwrap();
}
