//! Behaviour that holds for every store.

use std::collections::BTreeMap;
use std::time::Duration;

use jobwright::admin::{JobFilter, JobState};
use jobwright::{CommandExecutor, JobError, JobId, MessageServices, NewJob, Outcome};

use crate::support::environment::{Gate, PATIENCE, World, at_once, quick};
use crate::support::jobs::{LATER, job};
use crate::support::logs::Logs;

fn once(line: &str) -> BTreeMap<String, u64> {
    BTreeMap::from([(line.to_owned(), 1)])
}

pub(crate) async fn writes_and_messages_commit_together<W: World>(db: &W) {
    let messages = db.messages().await;
    let mut cx = messages.begin();
    let now = cx.send(job()).unwrap();
    W::note(cx.transaction().await.unwrap(), "written").await.unwrap();
    let later = cx.send(job().delay(LATER)).unwrap();
    cx.commit().await.unwrap();
    assert_eq!(db.ledger().await, once("written"));
    assert_eq!(db.jobs().state(now).await, Some(JobState::Waiting));
    assert_eq!(db.jobs().state(later).await, Some(JobState::Timer));
}

pub(crate) async fn messages_alone_need_no_transaction<W: World>(db: &W) {
    let messages = db.messages().await;
    let mut cx = messages.begin();
    let ids = [cx.send(job()).unwrap(), cx.send(job()).unwrap()];
    cx.commit().await.unwrap();
    // In the order of sending.
    assert_eq!(db.jobs().all().await.iter().map(|job| job.id).collect::<Vec<_>>(), ids);
}

pub(crate) async fn nothing_to_do_is_no_error<W: World>(db: &W) {
    let messages = db.messages().await;
    messages.begin().commit().await.unwrap();
    messages.begin().rollback().await.unwrap();
    let mut cx = messages.begin();
    cx.transaction().await.unwrap();
    cx.commit().await.unwrap();
    assert!(db.jobs().all().await.is_empty());
}

pub(crate) async fn a_rollback_leaves_nothing<W: World>(db: &W) {
    let messages = db.messages().await;
    let mut cx = messages.begin();
    cx.send(job()).unwrap();
    W::note(cx.transaction().await.unwrap(), "undone").await.unwrap();
    cx.rollback().await.unwrap();
    assert!(db.jobs().all().await.is_empty());
    assert!(db.ledger().await.is_empty());
}

pub(crate) async fn a_dropped_context_leaves_nothing<W: World>(db: &W) {
    let messages = db.messages().await;
    let mut cx = messages.begin();
    cx.send(job()).unwrap();
    W::note(cx.transaction().await.unwrap(), "undone").await.unwrap();
    drop(cx);
    // The next transaction is a new one, on any connection: it contains nothing of the dropped one.
    let mut cx = messages.begin();
    W::note(cx.transaction().await.unwrap(), "kept").await.unwrap();
    cx.commit().await.unwrap();
    assert_eq!(db.ledger().await, once("kept"));
    assert!(db.jobs().all().await.is_empty());
}

pub(crate) async fn a_dropped_context_with_jobs_is_told_once<W: World>(db: &W) {
    let logs = Logs::capture();
    let messages = db.messages().await;
    let kind = format!("forgotten-{}", std::process::id());
    let begun = |messages: &MessageServices<W::Store>| {
        let mut cx = messages.begin();
        cx.send(NewJob::json(kind.clone(), &1)).unwrap();
        cx
    };
    // On purpose, and sent: nothing to tell.
    begun(&messages).rollback().await.unwrap();
    begun(&messages).commit().await.unwrap();
    drop(messages.begin());
    assert!(logs.about(&kind, "WARN").is_empty());
    drop(begun(&messages));
    // Once for each kind.
    drop(begun(&messages.clone()));
    let told = logs.about(&kind, "WARN");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("dropped before its `commit`"), "{told:?}");
    // A handler that fails discards its jobs: that is no mistake.
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle_with(kind.clone(), |cx| {
            Box::pin(async move {
                cx.send(NewJob::json(cx.job().kind.clone(), &2))?;
                Ok(Outcome::Dead("no".to_owned()))
            })
        })
        .start()
        .await
        .unwrap();
    db.counts(JobState::Dead, 1).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!(logs.about("dropped before its", "WARN").len(), 1);
}

pub(crate) async fn sending_only_collects<W: World>(db: &W) {
    let messages = db.messages().await;
    let mut cx = messages.begin();
    W::note(cx.transaction().await.unwrap(), "open").await.unwrap();
    let first = cx.send(NewJob::json("first", &1).priority(7)).unwrap();
    let second = cx.send(NewJob::json("second", &2).queue("other")).unwrap();
    let pending: Vec<_> =
        cx.pending().iter().map(|message| (message.id, message.kind.as_str(), message.priority)).collect();
    assert_eq!(pending, [(first, "first", 7), (second, "second", 0)]);
    assert_eq!(cx.pending()[1].queue, "other");
    assert!(db.jobs().all().await.is_empty(), "stored before the commit");
    cx.commit().await.unwrap();
    assert_eq!(db.jobs().all().await.len(), 2);
}

pub(crate) async fn a_refused_message_leaves_the_context_usable<W: World>(db: &W) {
    let messages = db.messages().await;
    let mut cx = messages.begin();
    W::note(cx.transaction().await.unwrap(), "kept").await.unwrap();
    let good = cx.send(job()).unwrap();
    for bad in [
        NewJob::json("", &1),
        NewJob::json("kind", &1).queue("q".repeat(101)),
        NewJob::json("kind", &1).max_attempts(0),
        NewJob::json("kind", &"x".repeat(2 * 1024 * 1024)),
    ] {
        assert!(cx.send(bad).unwrap_err().is_invalid());
    }
    assert_eq!(cx.pending().len(), 1);
    cx.commit().await.unwrap();
    assert_eq!(db.jobs().all().await.iter().map(|job| job.id).collect::<Vec<_>>(), [good]);
    assert_eq!(db.ledger().await, once("kept"));
}

pub(crate) async fn sending_an_id_again_changes_nothing<W: World>(db: &W) {
    let messages = db.messages().await;
    let id = JobId::new();
    messages.send(NewJob::json("kind", &1).id(id)).await.unwrap();
    // Twice in one context, in its own transaction, and delayed: the first one counts.
    let mut cx = messages.begin();
    W::note(cx.transaction().await.unwrap(), "kept").await.unwrap();
    cx.send(NewJob::json("kind", &2).id(id).priority(9)).unwrap();
    cx.send(NewJob::json("kind", &3).id(id).delay(LATER)).unwrap();
    let other = cx.send(job()).unwrap();
    cx.commit().await.unwrap();
    let jobs = db.jobs().all().await;
    assert_eq!(jobs.iter().map(|job| (job.id, job.priority)).collect::<Vec<_>>(), [(id, 0), (other, 0)]);
    assert_eq!(db.jobs().detail(id).await.payload.decode::<i64>().unwrap(), 1);
    assert_eq!(db.ledger().await, once("kept"));
}

/// Runs a handler that sends messages and then returns the result of `ends`.
async fn nested<W: World>(db: &W, ends: fn() -> Result<Outcome, JobError>) -> JobId {
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .kind_options("parent", at_once())
        .handle_with("parent", move |cx| {
            Box::pin(async move {
                let line = format!("attempt {}", cx.job().attempt);
                W::note(cx.transaction().await?, &line).await?;
                cx.send(NewJob::json("child", &1))?;
                cx.send(NewJob::json("child", &2).delay(Duration::from_secs(3600)))?;
                ends()
            })
        })
        .start()
        .await
        .unwrap();
    let id = messages.send(NewJob::json("parent", &()).max_attempts(2)).await.unwrap();
    let jobs = db.jobs();
    crate::support::eventually(Duration::from_secs(20), async || {
        jobs.state(id).await.is_none_or(|state| state == JobState::Dead)
    })
    .await;
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
    id
}

pub(crate) async fn a_handler_commits_its_messages_with_its_job<W: World>(db: &W) {
    nested(db, || Ok(Outcome::Done)).await;
    assert_eq!(db.ledger().await, once("attempt 1"));
    let states: Vec<_> = db.jobs().all().await.into_iter().map(|job| (job.kind, job.state)).collect();
    assert_eq!(states, [("child".to_owned(), JobState::Waiting), ("child".to_owned(), JobState::Timer)]);
}

pub(crate) async fn a_handler_that_fails_sends_nothing<W: World>(db: &W) {
    let id = nested(db, || Err(JobError::new("no"))).await;
    assert!(db.ledger().await.is_empty());
    let jobs = db.jobs().all().await;
    assert_eq!(jobs.iter().map(|job| (job.id, job.state, job.attempt)).collect::<Vec<_>>(), [(id, JobState::Dead, 2)]);
}

/// The job is cancelled while it runs, and completes after that: its writes and messages are discarded with its claim.
pub(crate) async fn a_handler_that_lost_its_job_leaves_nothing<W: World>(db: &W) {
    let messages = db.messages().await;
    let gate = Gate::closed();
    let door = gate.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle_with("parent", move |cx| {
            let door = door.clone();
            Box::pin(async move {
                door.pass().await;
                W::note(cx.transaction().await?, "undone").await?;
                cx.send(NewJob::json("child", &1))?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    let id = messages.send(NewJob::json("parent", &())).await.unwrap();
    db.reaches(id, JobState::Running).await;
    assert_eq!(db.jobs().cancel(&JobFilter::ids([id]), false).await.unwrap().total(), 1);
    gate.open();
    crate::support::eventually(PATIENCE, async || executor.stats().refused == 1).await;
    assert!(db.jobs().all().await.is_empty());
    assert!(db.ledger().await.is_empty());
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().done, 0);
}
