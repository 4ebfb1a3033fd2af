//! The numbers and the health of an executor.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jobwright::admin::JobFilter;
use jobwright::internal::engine::Hint;
use jobwright::telemetry::{HealthState, JobMetrics, Telemetry};
use jobwright::{
    BatchOptions, BatchOutcomes, CommandExecutor, JobError, JobId, MessageServices, NewJob, Outcome, Unique,
};

use crate::support::environment::{Gate, PATIENCE, World, at_once, noting_behind, quick};
use crate::support::postgres::Pg;
use crate::support::{TestDb as _, eventually};

fn of(telemetry: &Telemetry, kind: &str) -> JobMetrics {
    let mut jobs = telemetry.metrics().jobs.into_iter().filter(|jobs| jobs.kind == kind);
    let found = jobs.next().unwrap_or_else(|| panic!("no job of the kind {kind} has begun"));
    assert!(jobs.next().is_none(), "{kind} is listed twice");
    found
}

/// Returns the outcomes that occurred.
fn outcomes(jobs: &JobMetrics) -> BTreeMap<&'static str, u64> {
    jobs.finished.iter().filter(|(_, count)| **count > 0).map(|(outcome, count)| (*outcome, *count)).collect()
}

/// However it ran: alone, in a batch, in a group, with the handler's transaction or without.
pub(crate) async fn each_attempt_is_counted_once_with_its_outcome<W: World>(db: &W) {
    let messages = db.messages().await;
    let snoozed = Arc::new(AtomicBool::new(false));
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .queue("default", 4)
        .queue("other", 2)
        .kind_options("ends", at_once())
        .handle("ends", move |job| {
            let snoozed = snoozed.clone();
            async move {
                match (job.payload.decode::<String>()?.as_str(), job.attempt) {
                    ("retry", 1) => Err(JobError::new("once more")),
                    ("snooze", _) if !snoozed.swap(true, Ordering::SeqCst) => {
                        Ok(Outcome::Snooze(Duration::from_millis(1)))
                    }
                    ("cancel", _) => Ok(Outcome::Cancel("no need".to_owned())),
                    ("dead", _) => Ok(Outcome::Dead("hopeless".to_owned())),
                    ("panic", 1) => panic!("once more"),
                    _ => Ok(Outcome::Done),
                }
            }
        })
        .handle_with("writes", |cx| {
            Box::pin(async move {
                let line = cx.job().id.to_string();
                W::note(cx.transaction().await?, &line).await?;
                Ok(Outcome::Done)
            })
        })
        .handle_batch("many", BatchOptions::new(4).wait(Duration::from_millis(20)), |batch| {
            Box::pin(async move {
                let mut outcomes = BatchOutcomes::default();
                for job in batch.jobs() {
                    if job.payload.decode::<bool>()? {
                        W::note(batch.transaction().await?, &job.id.to_string()).await?;
                    }
                    outcomes.set(job.id, Ok(Outcome::Done));
                }
                Ok(outcomes)
            })
        })
        .handle("never", async |_| Ok(Outcome::Done))
        .start()
        .await
        .unwrap();
    let telemetry = executor.telemetry();
    let mut cx = messages.begin();
    for how in ["done", "done", "retry", "snooze", "cancel", "dead", "panic"] {
        cx.send(NewJob::json("ends", &how)).unwrap();
    }
    for n in 0..30 {
        let job = NewJob::json("writes", &n);
        cx.send(if n < 20 { job.exclusive(format!("g{}", n % 2)) } else { job.queue("other") }).unwrap();
    }
    for writes in [false, true] {
        for _ in 0..6 {
            cx.send(NewJob::json("many", &writes)).unwrap();
        }
    }
    cx.commit().await.unwrap();
    let left = async || db.jobs().all().await.len();
    eventually(PATIENCE, async || left().await == 1).await;
    let done = executor.shutdown(Duration::from_secs(10)).await.unwrap().done;

    let ends = of(&telemetry, "ends");
    let expected = [("done", 5), ("retry", 2), ("snooze", 1), ("cancel", 1), ("dead", 1)];
    assert_eq!(outcomes(&ends), expected.into());
    // Of seven jobs three ran twice, and one of them again as its first attempt, because a snooze costs none. Only a job that is done has an end.
    assert_eq!((ends.started, ends.run.count(), ends.wait.count(), ends.end_to_end.count()), (10, 10, 8, 5));
    assert_eq!(outcomes(&of(&telemetry, "many")), [("done", 12)].into());
    let all = telemetry.metrics();
    let writes: Vec<_> = all.jobs.iter().filter(|jobs| jobs.kind == "writes").collect();
    let by_queue: Vec<_> = writes.iter().map(|jobs| (jobs.queue.as_str(), jobs.started, outcomes(jobs))).collect();
    assert_eq!(by_queue, [("default", 20, [("done", 20)].into()), ("other", 10, [("done", 10)].into())]);
    assert!(all.jobs.iter().all(|jobs| jobs.kind != "never"), "none of them has begun");
    let counted: u64 = all.jobs.iter().map(|jobs| jobs.finished["done"]).sum();
    assert_eq!((counted, all.stats.done), (47, done));
    assert!(all.claims.count() >= all.claimed.count() && all.claimed.count() > 0 && all.records.count() > 0);
    assert!(all.claimed.sum as u64 <= all.stats.claimed);
}

/// By contexts and handlers. What is rolled back, was sent before or is a duplicate was not sent.
pub(crate) async fn what_commits_send_is_counted<W: World>(db: &W) {
    let messages = db.messages().await;
    let sent = messages.sent();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .queue("default", 2)
        .handle_with("sends", |cx| {
            Box::pin(async move {
                cx.send(NewJob::json("child", &1).queue("later").delay(Duration::from_secs(3600)))?;
                if cx.job().attempt == 1 { Err(JobError::new("not yet")) } else { Ok(Outcome::Done) }
            })
        })
        .kind_options("sends", at_once())
        .start()
        .await
        .unwrap();
    let telemetry = executor.telemetry();
    let send = async |jobs: Vec<NewJob>, commit: bool| {
        let mut cx = messages.begin();
        for job in jobs {
            cx.send(job).unwrap();
        }
        if commit { cx.commit().await.unwrap() } else { cx.rollback().await.unwrap() }
    };
    let aside = |kind: &str| NewJob::json(kind, &1).queue("aside");
    send(vec![aside("a"), aside("a"), aside("b"), aside("a")], true).await;
    send(vec![aside("a")], false).await;
    let id = JobId::new();
    for _ in 0..2 {
        send(vec![aside("given").id(id), aside("given").queue("apart")], true).await;
    }
    for _ in 0..2 {
        send(vec![aside("unique").unique(Unique::key("key"))], true).await;
    }
    send(vec![NewJob::json("sends", &1)], true).await;
    let expected = [
        ("apart", "given", 2),
        ("aside", "a", 3),
        ("aside", "b", 1),
        ("aside", "given", 1),
        ("aside", "unique", 1),
        ("default", "sends", 1),
        ("later", "child", 1),
    ];
    let counted = async || {
        let read = sent.read();
        read.jobs.iter().map(|it| (it.queue.clone(), it.kind.clone(), it.sent)).collect::<Vec<_>>()
            == expected.map(|(queue, kind, count)| (queue.to_owned(), kind.to_owned(), count))
    };
    eventually(PATIENCE, counted).await;
    assert_eq!(telemetry.metrics().sent, sent.read());
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// Its transaction is rolled back, so it has neither failed nor ended.
pub(crate) async fn what_is_cancelled_while_it_runs_is_lost<W: World>(db: &W) {
    let messages = db.messages().await;
    let gate = Gate::closed();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick().cancel_grace(Duration::ZERO))
        .queue("default", 2)
        .handle_with("waits", noting_behind::<W>(&gate))
        .start()
        .await
        .unwrap();
    let telemetry = executor.telemetry();
    let mut cx = messages.begin();
    let id = cx.send(NewJob::json("waits", &())).unwrap();
    cx.commit().await.unwrap();
    gate.waiting(1).await;
    let running = telemetry.metrics();
    assert_eq!((running.jobs[0].started, running.jobs[0].run.count(), running.stats.in_flight), (1, 0, 1));
    assert_eq!((running.slots["default"], running.jobs[0].running()), (2, 1));
    assert!(running.lease_seconds_left.is_some_and(|left| left > 0.0 && left <= 4.0));
    db.jobs().cancel(&JobFilter::ids([id]), false).await.unwrap();
    eventually(PATIENCE, async || outcomes(&of(&telemetry, "waits")) == [("lost", 1)].into()).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    assert!(db.ledger().await.is_empty());
}

pub(crate) async fn an_executor_is_ready_from_its_first_renewal_to_its_stop<W: World>(db: &W) {
    let messages = db.messages().await;
    let gate = Gate::closed();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .queue("mail", 1)
        .handle_with("waits", noting_behind::<W>(&gate))
        .start()
        .await
        .unwrap();
    let telemetry = executor.telemetry();
    eventually(PATIENCE, async || telemetry.health().is_ready()).await;
    let health = telemetry.health();
    assert!(health.is_live && health.is_started);
    let names: Vec<_> = health.checks.iter().map(|check| check.name.as_str()).collect();
    assert_eq!(names, ["executor", "lease", "queue mail"]);
    // All slots are taken: nothing is claimed, and that is no fault.
    let mut cx = messages.begin();
    cx.send(NewJob::json("waits", &()).queue("mail")).unwrap();
    cx.commit().await.unwrap();
    gate.waiting(1).await;
    let activity = || telemetry.health().checks.pop().unwrap().text;
    eventually(PATIENCE, async || activity().contains("waits for a free slot")).await;
    assert!(telemetry.health().is_ready(), "{:?}", telemetry.health());
    let stopping = tokio::spawn(executor.shutdown(Duration::from_secs(60)));
    eventually(PATIENCE, async || !telemetry.health().is_ready()).await;
    let health = telemetry.health();
    assert!(health.is_live, "a probe must not kill a worker that completes its jobs");
    let failed = health.checks.iter().find(|check| check.state == HealthState::Failed).unwrap();
    assert!(failed.text.contains("it is stopping"), "{failed:?}");
    gate.open();
    stopping.await.unwrap().unwrap();
    assert!(telemetry.metrics().lease_seconds_left.is_none());
    assert!(telemetry.health().is_live, "it was stopped on purpose");
}

/// A dispatcher that hears of permits all the time, and has nothing to do with them, is no dispatcher that hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_steady_stream_of_hints_does_not_look_like_a_hanging_dispatcher() {
    let Some(db) = Pg::<false>::create().await else { return };
    let mut config = db.config();
    config.call_timeout = Duration::from_secs(1);
    let messages = MessageServices::postgres(&config).await.unwrap();
    let builder = CommandExecutor::builder(messages).config(quick()).queue("default", 1);
    let executor = builder.handle("kind", |_| async { Ok(Outcome::Done) }).start().await.unwrap();
    let telemetry = executor.telemetry();
    eventually(PATIENCE, async || telemetry.health().is_ready()).await;
    let (store, begun) = (db.jobs(), Instant::now());
    // A dispatcher may pause for two polls, a call, and five seconds on a busy machine.
    while begun.elapsed() < Duration::from_secs(9) {
        store.notify(&[Hint::Admission]).await.unwrap();
        let health = telemetry.health();
        assert!(health.is_ready(), "{health:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    executor.shutdown(Duration::ZERO).await.unwrap();
}
