//! Commits that run their jobs at once.

use jobwright::testing::{RunOutcome, TestDatabase, assert_sent};
use jobwright::{MessageServices, NewJob, Outcome};

use crate::test_kit::kit::{Kit, committed, note, noting};

pub(crate) async fn a_commit_returns_after_its_jobs_have_run<S: Kit>(db: &TestDatabase<S>) {
    S::create_ledger(db).await;
    let inline = db.inline(|executor| noting(executor).handle("noted", |_| async { Ok(Outcome::Done) })).await.unwrap();
    let messages = inline.messages().clone();
    let mut cx = messages.begin();
    S::note(cx.transaction().await.unwrap(), "before".to_owned()).await.unwrap();
    cx.send(note("done")).unwrap();
    cx.commit().await.unwrap();
    assert_eq!(committed(db).await, 2);
    assert_sent(&db.sent().await.unwrap()).never();
    messages.send(note("done")).await.unwrap();
    assert_eq!(committed(db).await, 3);
    let summary = inline.finish().await.unwrap();
    assert_eq!(summary.expect_done().done(), 4);
}

pub(crate) async fn rolled_back_jobs_do_not_run<S: Kit>(db: &TestDatabase<S>) {
    S::create_ledger(db).await;
    let inline = db.inline(noting).await.unwrap();
    let mut cx = inline.messages().begin();
    cx.send(note("done")).unwrap();
    cx.rollback().await.unwrap();
    assert!(inline.finish().await.unwrap().ran.is_empty());
    assert_eq!(committed(db).await, 0);
}

/// The commit has succeeded: the caller learns that, and the test learns of the failure.
pub(crate) async fn a_failing_job_fails_no_commit_and_is_reported_at_the_end<S: Kit>(db: &TestDatabase<S>) {
    S::create_ledger(db).await;
    let inline = db.inline(noting).await.unwrap();
    inline.messages().send(note("dead")).await.unwrap();
    let summary = inline.finish().await.unwrap();
    assert_eq!(summary.ran[0].end, RunOutcome::Dead("no good".to_owned()));
}

/// The handler uses the services that the application gave it, bypassing its own context.
pub(crate) async fn a_handler_that_commits_by_itself_does_not_wait_for_itself<S: Kit>(db: &TestDatabase<S>) {
    let slot: std::sync::Arc<std::sync::OnceLock<MessageServices<S>>> = std::sync::Arc::default();
    let own = slot.clone();
    let inline = db
        .inline(|executor| {
            executor
                .handle("outer", move |_| {
                    let messages = own.get().unwrap().clone();
                    async move {
                        messages.send(NewJob::json("inner", &())).await?;
                        Ok(Outcome::Done)
                    }
                })
                .handle("inner", |_| async { Ok(Outcome::Done) })
        })
        .await
        .unwrap();
    assert!(slot.set(inline.messages().clone()).is_ok());
    inline.messages().send(NewJob::json("outer", &())).await.unwrap();
    assert_sent(&db.sent().await.unwrap()).never();
    let summary = inline.finish().await.unwrap();
    let kinds: Vec<_> = summary.expect_done().ran.iter().map(|ran| ran.job.kind.as_str()).collect();
    assert_eq!(kinds, ["outer", "inner"]);
}

pub(crate) async fn an_endless_chain_is_reported_at_the_end<S: Kit>(db: &TestDatabase<S>) {
    let inline = db
        .inline(|executor| {
            executor.handle_with("again", |cx| {
                Box::pin(async move {
                    cx.send(NewJob::json("again", &()))?;
                    Ok(Outcome::Done)
                })
            })
        })
        .await
        .unwrap();
    inline.messages().send(NewJob::json("again", &())).await.unwrap();
    let text = inline.finish().await.unwrap_err().to_string();
    assert!(text.contains("jobs keep sending jobs: 101"), "{text}");
}
