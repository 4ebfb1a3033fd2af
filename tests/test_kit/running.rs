//! Running jobs manually.

use std::time::Duration;

use jobwright::admin::{JobFilter, Rule, Scope};
use jobwright::testing::{RunOutcome, Runner, TestDatabase, assert_sent};
use jobwright::{
    BatchOptions, CommandExecutor, ErrorKind, Job, JobError, KindOptions, Middleware, NewJob, Next, Outcome,
    RetryPolicy,
};

use crate::test_kit::kit::{Kit, committed, note, noting, send};

pub(crate) async fn a_drain_runs_waiting_jobs_and_the_jobs_they_send<S: Kit>(db: &TestDatabase<S>) {
    S::create_ledger(db).await;
    let mut runner =
        db.runner(|executor| noting(executor).handle("noted", |_| async { Ok(Outcome::Done) })).await.unwrap();
    for _ in 0..3 {
        send(db.messages(), note("done")).await;
    }
    let summary = runner.drain().await.unwrap();
    assert_eq!((summary.expect_done().done(), summary.of("noted").count()), (6, 3));
    assert_eq!(committed(db).await, 3);
    assert_sent(&db.sent().await.unwrap()).never();
    assert!(runner.drain().await.unwrap().ran.is_empty());
}

pub(crate) async fn failures_are_reported_and_recorded<S: Kit>(db: &TestDatabase<S>) {
    S::create_ledger(db).await;
    let fixed = KindOptions::default().retry(RetryPolicy::Fixed(Duration::from_secs(60)));
    let mut runner = db.runner(|executor| noting(executor).kind_options("note", fixed)).await.unwrap();
    let fails = send(db.messages(), note("no connection")).await;
    send(db.messages(), note("panics").max_attempts(1)).await;
    send(db.messages(), note("dead")).await;
    let summary = runner.drain().await.unwrap();
    assert_eq!(
        summary.ran[0].end,
        RunOutcome::Failed { error: "no connection".to_owned(), again: Duration::from_secs(60) }
    );
    assert!(matches!(&summary.ran[1].end, RunOutcome::Dead(why) if why.contains("all is lost")), "{summary}");
    assert_eq!(summary.ran[2].end, RunOutcome::Dead("no good".to_owned()));
    assert_eq!(summary.timers.iter().map(|job| job.id).collect::<Vec<_>>(), [fails]);
    assert_eq!(committed(db).await, 0);
    let told = std::panic::catch_unwind(|| summary.expect_done().done()).unwrap_err();
    let told = told.downcast_ref::<String>().unwrap();
    assert!(told.contains("3 of 3 jobs did not end with `Done`"), "{told}");
    assert!(told.contains("note (attempt 1 of 10): FAILED, again after 60s: no connection"), "{told}");
}

/// The final outcome counts, unless a test requires that no attempt failed.
pub(crate) async fn a_job_that_was_tried_again_is_done<S: Kit>(db: &TestDatabase<S>) {
    let mut runner = db
        .runner(|executor| {
            executor.handle("third", |job: Job| async move {
                if job.attempt < 3 { Err(JobError::new("not yet")) } else { Ok(Outcome::Done) }
            })
        })
        .await
        .unwrap();
    let panics = |work: &dyn Fn()| {
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_err();
        told.downcast_ref::<String>().unwrap().clone()
    };
    send(db.messages(), NewJob::json("third", &())).await;
    let summary = runner.drain().await.unwrap();
    let told = panics(&|| {
        summary.expect_done();
    });
    assert!(told.contains("1 of 1 jobs did not end with `Done`"), "its next attempt is not due: {told}");
    send(db.messages(), NewJob::json("third", &())).await;
    let summary = runner.drain_through(Duration::from_secs(3600)).await.unwrap();
    assert_eq!(summary.expect_done().done(), 2);
    let told = panics(&|| {
        summary.expect_first_try();
    });
    assert!(told.contains("attempts did not end with `Done`"), "{told}");
}

/// An executor would leave them too: the test has to learn of it.
pub(crate) async fn jobs_without_a_handler_are_reported<S: Kit>(db: &TestDatabase<S>) {
    let mut runner = db.runner(|executor| executor.handle("known", |_| async { Ok(Outcome::Done) })).await.unwrap();
    send(db.messages(), NewJob::json("known", &()).queue("elsewhere")).await;
    send(db.messages(), NewJob::json("unknown", &())).await;
    let summary = runner.drain().await.unwrap();
    assert_eq!((summary.ran.len(), summary.waiting.len()), (0, 2));
    let told = std::panic::catch_unwind(|| summary.expect_done().done()).unwrap_err();
    let told = told.downcast_ref::<String>().unwrap();
    assert!(told.contains("2 jobs wait") && told.contains("known in elsewhere: WAITS"), "{told}");
    assert!(told.contains(r#"no living node works on the queue "elsewhere""#), "{told}");
    assert!(told.contains(r#"has a handler for the kind "unknown""#), "{told}");
}

pub(crate) async fn jobs_that_may_not_start_are_reported_with_the_reason<S: Kit>(db: &TestDatabase<S>) {
    let mut runner = db
        .runner(|executor| {
            let broken = executor.handle("broken", |_| async { Err(JobError::not_here("no such program")) });
            broken.handle("known", |_| async { Ok(Outcome::Done) })
        })
        .await
        .unwrap();
    db.messages().admin().by("ann").put_rule(&Rule::new(Scope::Kind, "known").paused(true)).await.unwrap();
    send(db.messages(), NewJob::json("known", &())).await;
    send(db.messages(), NewJob::json("broken", &())).await;
    let summary = runner.drain().await.unwrap();
    let text = summary.to_string();
    assert!(text.contains("known in default: ") && text.contains(r#"kind "known" is paused since "#), "{text}");
    assert!(text.contains("by ann") && text.contains("leaves the kind \"broken\" alone"), "{text}");
    assert!(text.contains("no such program") && !text.contains("nothing is in its way"), "{text}");
}

pub(crate) async fn jobs_that_send_each_other_for_ever_are_found_out<S: Kit>(db: &TestDatabase<S>) {
    let sends = |kind: &'static str| {
        move |cx: &mut jobwright::JobContext<'_, (), S>| -> Result<Outcome, JobError> {
            cx.send(NewJob::json(kind, &()))?;
            Ok(Outcome::Done)
        }
    };
    let (ping, pong) = (sends("pong"), sends("ping"));
    let runner = db
        .runner(|executor| {
            executor
                .handle_with("ping", move |cx| {
                    let ended = ping(cx);
                    Box::pin(async move { ended })
                })
                .handle_with("pong", move |cx| {
                    let ended = pong(cx);
                    Box::pin(async move { ended })
                })
        })
        .await
        .unwrap();
    send(db.messages(), NewJob::json("ping", &())).await;
    let error = runner.depth(7).drain().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let text = error.to_string();
    assert!(text.contains("8 were sent by each other in a row"), "{text}");
    assert!(text.contains("… → ping → pong → ping → pong → ping → pong"), "{text}");
}

pub(crate) async fn a_job_that_comes_back_for_ever_is_found_out<S: Kit>(db: &TestDatabase<S>) {
    let runner =
        db.runner(|executor| executor.handle("busy", |_| async { Ok(Outcome::Snooze(Duration::ZERO)) })).await.unwrap();
    send(db.messages(), NewJob::json("busy", &())).await;
    let text = runner.most(20).drain().await.unwrap_err().to_string();
    assert!(text.contains("20 attempts") && text.contains("20 of busy"), "{text}");
}

/// An hour with all its retries takes no time.
pub(crate) async fn a_drain_through_time_runs_retries_and_delayed_jobs<S: Kit>(db: &TestDatabase<S>) {
    let mut runner = db
        .runner(|executor| {
            executor.handle("third", |job| async move {
                if job.attempt < 3 {
                    Err(JobError::retry_after("not yet", Duration::from_secs(900)))
                } else {
                    Ok(Outcome::Done)
                }
            })
        })
        .await
        .unwrap();
    send(db.messages(), NewJob::json("third", &())).await;
    send(db.messages(), NewJob::json("third", &()).delay(Duration::from_secs(5400))).await;
    let summary = runner.drain_through(Duration::from_secs(3600)).await.unwrap();
    assert_eq!((summary.ran.len(), summary.done(), summary.timers.len()), (3, 1, 1), "{summary}");
    let summary = runner.drain_through(Duration::from_secs(3700)).await.unwrap();
    assert_eq!((summary.ran.len(), summary.done(), summary.timers.len()), (3, 1, 0), "{summary}");
}

pub(crate) async fn work_one_runs_one_job_on_the_real_path<S: Kit>(db: &TestDatabase<S>) {
    S::create_ledger(db).await;
    let mut runner = db.runner(noting).await.unwrap();
    let second = send(db.messages(), note("done")).await;
    let first = send(db.messages(), note("done").priority(1)).await;
    let ran = runner.work_one().await.unwrap().unwrap();
    assert!(ran.is_done() && ran.job.id == first && ran.job.attempt == 1, "{ran}");
    assert_eq!(committed(db).await, 1);
    let stored = db.sent().await.unwrap();
    assert_sent(&stored).matching("the second", |job| job.id == second).once();
    assert_sent(&stored).kind("noted").json(&1).once();
    runner.work_one().await.unwrap().unwrap();
    assert!(runner.work_one().await.unwrap().is_none(), "nobody handles `noted`");
    runner.close().await.unwrap();
}

/// The handler sees the test's writes, and the test sees the handler's.
pub(crate) async fn work_in_leaves_nothing_when_the_test_rolls_back<S: Kit>(db: &TestDatabase<S>) {
    S::create_ledger(db).await;
    let mut runner = db.runner(noting).await.unwrap();
    let mut cx = db.messages().begin();
    S::note(cx.transaction().await.unwrap(), "the test's own".to_owned()).await.unwrap();
    assert_eq!(runner.work_in(&mut cx, note("done")).await.unwrap(), Outcome::Done);
    assert_eq!(S::lines(cx.transaction().await.unwrap()).await, 2);
    assert_sent(&cx).kind("noted").json(&1).once();
    assert_eq!(runner.work_in(&mut cx, note("broken")).await.unwrap_err().message(), "broken");
    let panicked = runner.work_in(&mut cx, note("panics")).await.unwrap_err();
    assert!(panicked.message().contains("all is lost"), "{panicked}");
    let unknown = runner.work_in(&mut cx, NewJob::json("unknown", &())).await.unwrap_err();
    assert!(
        unknown.message().contains("no handler for jobs of kind \"unknown\"; there are handlers for: note"),
        "{unknown}"
    );
    cx.rollback().await.unwrap();
    assert_eq!(committed(db).await, 0);
    assert_sent(&db.sent().await.unwrap()).never();
}

pub(crate) async fn middleware_and_send_hooks_are_there<S: Kit>(db: &TestDatabase<S>) {
    struct Refuses;
    impl Middleware for Refuses {
        async fn around(&self, job: &Job, next: Next<'_>) -> Result<Outcome, JobError> {
            if job.headers.contains_key("tenant") { next.run().await } else { Ok(Outcome::Cancel("whose?".to_owned())) }
        }
    }
    S::create_ledger(db).await;
    let messages = db
        .messages()
        .clone()
        .on_send(|job, sender| Ok(if sender.is_some() { job.header("tenant", "acme") } else { job }));
    let mut runner = Runner::new(noting(CommandExecutor::builder(messages).middleware(Refuses))).await.unwrap();
    send(db.messages(), note("done")).await;
    send(db.messages(), note("done").header("tenant", "acme")).await;
    let summary = runner.drain().await.unwrap();
    assert_eq!(
        summary.ran.iter().map(|ran| ran.end.clone()).collect::<Vec<_>>(),
        [RunOutcome::Cancelled, RunOutcome::Done]
    );
    assert_sent(&db.sent().await.unwrap()).kind("noted").header("tenant", "acme").once();
}

pub(crate) async fn batches_are_run_as_batches<S: Kit>(db: &TestDatabase<S>) {
    S::create_ledger(db).await;
    let mut runner = db
        .runner(|executor| {
            executor.queue("default", 4).handle_batch("many", BatchOptions::new(4), |batch| {
                Box::pin(async move {
                    let line = batch.jobs().len().to_string();
                    S::note(batch.transaction().await?, line).await?;
                    Ok(batch.all_done())
                })
            })
        })
        .await
        .unwrap();
    for _ in 0..7 {
        send(db.messages(), NewJob::json("many", &())).await;
    }
    assert_eq!(runner.drain().await.unwrap().expect_done().done(), 7);
    assert_eq!(committed(db).await, 2, "two calls");
}

/// Admission is included: one of a group at a time, in order.
pub(crate) async fn groups_are_run_in_their_order<S: Kit>(db: &TestDatabase<S>) {
    let mut runner = db.runner(|executor| executor.handle("grouped", |_| async { Ok(Outcome::Done) })).await.unwrap();
    let mut cx = db.messages().begin();
    for n in 0..5 {
        cx.send(NewJob::json("grouped", &n).exclusive("one")).unwrap();
    }
    assert_sent(&cx).group("one").times(5);
    cx.commit().await.unwrap();
    assert_sent(&db.sent().await.unwrap()).group("one").times(5);
    let summary = runner.drain().await.unwrap();
    let order: Vec<i32> = summary.expect_done().ran.iter().map(|ran| ran.job.payload.decode().unwrap()).collect();
    assert_eq!(order, [0, 1, 2, 3, 4]);
}

/// By an operator, while it ran.
pub(crate) async fn a_refused_outcome_is_reported<S: Kit>(db: &TestDatabase<S>) {
    let admin = db.messages().admin();
    let mut runner = db
        .runner(|executor| {
            executor.handle("removed", move |job| {
                let admin = admin.clone();
                async move {
                    admin.cancel(&JobFilter::ids([job.id])).await?;
                    Ok(Outcome::Done)
                }
            })
        })
        .await
        .unwrap();
    send(db.messages(), NewJob::json("removed", &())).await;
    assert_eq!(runner.drain().await.unwrap().ran[0].end, RunOutcome::Refused);
}
