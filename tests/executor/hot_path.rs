//! Local handoff: jobs go straight from a commit to a free slot.

use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::{CommandExecutor, JobId, KindOptions, MessageServices, NewJob, Outcome};

use crate::executor::refused_outcomes::Refusing;
use crate::support::environment::{Gate, PATIENCE, World, patient};
use crate::support::eventually;
use crate::support::jobs::Jobs;

/// Starts an executor that polls only when woken, with jobs that wait at a gate. Returns after its first poll.
pub(crate) async fn waiting_at<W: World>(
    messages: &MessageServices<W::Store>,
    concurrency: usize,
    gate: &Gate,
) -> CommandExecutor<W::Store> {
    let gate = gate.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(patient())
        .queue("default", concurrency)
        .handle("waits", move |_| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                Ok(Outcome::Done)
            }
        })
        .handle("warm-up", |_| async { Ok(Outcome::Done) })
        .kind_options("limited", KindOptions::default().concurrency(1))
        .handle("limited", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    eventually(PATIENCE, async || {
        messages.send(NewJob::json("warm-up", &())).await.unwrap();
        executor.stats().handed_over > 0
    })
    .await;
    let jobs = Jobs(messages.engine().clone());
    eventually(PATIENCE, async || jobs.all().await.is_empty()).await;
    eventually(PATIENCE, async || executor.stats().in_flight == 0).await;
    executor
}

async fn send<W: World>(messages: &MessageServices<W::Store>, count: usize) {
    let mut cx = messages.begin();
    for _ in 0..count {
        cx.send(NewJob::json("waits", &())).unwrap();
    }
    cx.commit().await.unwrap();
}

pub(crate) async fn with_a_free_slot_there_is_no_claim<W: World>(db: &W) {
    let messages = db.messages().await;
    let gate = Gate::closed();
    gate.open();
    let executor = waiting_at::<W>(&messages, 5, &gate).await;
    // A requested poll may interfere; the next job is then claimed. That does not happen to all ten.
    let before = executor.stats();
    for _ in 0..10 {
        send::<W>(&messages, 1).await;
        db.drained().await;
    }
    let stats = executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!(stats.done - before.done, 10);
    assert!(stats.handed_over > before.handed_over, "{stats:?}");
    assert_eq!(stats.handed_over + stats.claimed, stats.done);
    assert_eq!(stats.refused, 0);
}

/// The slots are open when `start` returns: no poll, which would be an hour away, has to find the job.
pub(crate) async fn a_job_sent_right_after_the_start_runs<W: World>(db: &W) {
    let messages = db.messages().await;
    for round in 1..=5 {
        let executor = CommandExecutor::builder(messages.clone())
            .config(patient())
            .handle("quick", |_| async { Ok(Outcome::Done) })
            .start()
            .await
            .unwrap();
        let health = executor.telemetry().health();
        assert!(health.is_ready(), "round {round}: {health:?}");
        messages.send(NewJob::json("quick", &())).await.unwrap();
        db.drained().await;
        let stats = executor.shutdown(PATIENCE).await.unwrap();
        // While the first claim is under way, nothing is handed over.
        assert_eq!((stats.handed_over + stats.claimed, stats.done), (1, 1), "round {round}: {stats:?}");
    }
}

/// The database keeps one of the two, and only one is handed over: otherwise two handlers would run under one claim.
pub(crate) async fn an_id_that_is_sent_twice_in_a_commit_runs_once<W: World>(db: &W) {
    let messages = db.messages().await;
    let gate = Gate::closed();
    gate.open();
    let executor = waiting_at::<W>(&messages, 5, &gate).await;
    let before = executor.stats();
    let commits = 10;
    for _ in 0..commits {
        let id = JobId::new();
        let mut cx = messages.begin();
        for _ in 0..2 {
            cx.send(NewJob::json("waits", &()).id(id)).unwrap();
        }
        cx.commit().await.unwrap();
        db.drained().await;
    }
    let stats = executor.shutdown(PATIENCE).await.unwrap();
    assert!(stats.handed_over > before.handed_over, "{stats:?}");
    assert_eq!((stats.done - before.done, stats.refused), (commits, 0), "{stats:?}");
}

pub(crate) async fn never_more_than_there_is_room_for<W: World>(db: &W) {
    let messages = db.messages().await;
    let gate = Gate::closed();
    let executor = waiting_at::<W>(&messages, 5, &gate).await;
    send::<W>(&messages, 100).await;
    db.counts(JobState::Running, 5).await;
    // Another hundred, one by one, with no slot left.
    for _ in 0..100 {
        send::<W>(&messages, 1).await;
        assert_eq!(db.jobs().count(JobState::Running).await, 5);
    }
    assert_eq!(executor.stats().in_flight, 5);
    gate.open();
    db.drained().await;
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().refused, 0);
}

/// Slots are free, but other jobs wait already and can't be claimed now: a job sent now is not the next.
pub(crate) async fn preclaimed_jobs_do_not_overtake_waiting_ones<W: Refusing>(db: &W) {
    let messages = db.messages().await;
    let gate = Gate::closed();
    gate.open();
    let executor = waiting_at::<W>(&messages, 5, &gate).await;
    db.refuse_claims().await;
    // It can't be handed over, because its kind has its own limit.
    let first = messages.send(NewJob::json("limited", &())).await.unwrap();
    let before = executor.stats().handed_over;
    // A claim that is about to be refused has reserved the slots, but not at each of these sends.
    for _ in 0..20 {
        send::<W>(&messages, 1).await;
    }
    assert_eq!(db.jobs().count(JobState::Waiting).await, 21);
    assert_eq!(db.jobs().state(first).await, Some(JobState::Waiting));
    assert_eq!(executor.stats().handed_over, before, "some overtook those who waited");
    db.allow_claims().await;
    db.drained().await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}
