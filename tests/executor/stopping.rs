//! How an executor ends.

use std::time::{Duration, Instant};

use jobwright::admin::JobState;
use jobwright::{CommandExecutor, MessageServices, NewJob};

use crate::executor::hot_path::waiting_at;
use crate::support::environment::{Gate, World, noting_behind, quick};

/// Builds an executor whose jobs write a line and then wait at a gate.
async fn holding<W: World>(
    messages: &MessageServices<W::Store>,
    concurrency: usize,
    gate: &Gate,
) -> CommandExecutor<W::Store> {
    CommandExecutor::builder(messages.clone())
        .config(quick())
        .queue("default", concurrency)
        .handle_with("waits", noting_behind::<W>(gate))
        .start()
        .await
        .unwrap()
}

async fn send<W: World>(messages: &MessageServices<W::Store>, count: usize) -> Vec<jobwright::JobId> {
    let mut cx = messages.begin();
    let ids = (0..count).map(|_| cx.send(NewJob::json("waits", &())).unwrap()).collect();
    cx.commit().await.unwrap();
    ids
}

pub(crate) async fn a_shutdown_waits_for_its_handlers<W: World>(db: &W) {
    let messages = db.messages().await;
    let gate = Gate::closed();
    let executor = holding::<W>(&messages, 4, &gate).await;
    let ids = send::<W>(&messages, 4).await;
    gate.waiting(4).await;
    let stopping = tokio::spawn(executor.shutdown(Duration::from_secs(20)));
    // It has stopped claiming: jobs sent now stay.
    let jobs = db.jobs();
    let late = send::<W>(&messages, 1).await[0];
    assert_eq!(jobs.state(late).await, Some(JobState::Waiting));
    gate.open();
    let stats = stopping.await.unwrap().unwrap();
    assert_eq!((stats.done, stats.released, stats.in_flight), (4, 0, 0));
    db.each_once(&ids).await;
    assert_eq!(jobs.detail(late).await.summary.attempt, 0);
}

/// A slot is free, and nothing waits: before the shutdown the job would start here.
pub(crate) async fn jobs_sent_during_a_shutdown_do_not_start_here<W: World>(db: &W) {
    let messages = db.messages().await;
    let gate = Gate::closed();
    let executor = waiting_at::<W>(&messages, 4, &gate).await;
    send::<W>(&messages, 1).await;
    gate.waiting(1).await;
    let mut stopping = Box::pin(executor.shutdown(Duration::from_secs(60)));
    // The first poll of the future begins the shutdown.
    assert!(tokio::time::timeout(Duration::ZERO, &mut stopping).await.is_err());
    let mut late = Vec::new();
    for _ in 0..10 {
        late.extend(send::<W>(&messages, 1).await);
    }
    gate.open();
    let stats = stopping.await.unwrap();
    assert_eq!((stats.released, stats.refused, stats.in_flight), (0, 0, 0));
    for id in late {
        let detail = db.jobs().detail(id).await;
        assert_eq!((detail.summary.state, detail.summary.attempt), (JobState::Waiting, 0));
    }
}

pub(crate) async fn a_shutdown_releases_unfinished_jobs<W: World>(db: &W) {
    let messages = db.messages().await;
    let gate = Gate::closed();
    let executor = holding::<W>(&messages, 4, &gate).await;
    let ids = send::<W>(&messages, 6).await;
    gate.waiting(4).await;
    let begun = Instant::now();
    let telemetry = executor.telemetry();
    let stats = executor.shutdown(Duration::from_millis(100)).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!((stats.done, stats.released, stats.failed), (0, 4, 0));
    assert_eq!(telemetry.metrics().released["stopping"], 4);
    for id in &ids {
        let detail = db.jobs().detail(*id).await;
        assert_eq!((detail.summary.state, detail.summary.attempt), (JobState::Waiting, 0), "it cost an attempt");
        assert!(detail.errors.is_empty());
    }
    gate.open();
    let next = holding::<W>(&messages, 4, &gate).await;
    db.drained().await;
    db.each_once(&ids).await;
    next.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn after_a_shutdown_nothing_is_claimed<W: World>(db: &W) {
    let messages = db.messages().await;
    let gate = Gate::closed();
    gate.open();
    let executor = holding::<W>(&messages, 4, &gate).await;
    send::<W>(&messages, 1).await;
    db.drained().await;
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
    let ids = send::<W>(&messages, 5).await;
    // A claim would raise the version, even if it were given back.
    for id in ids {
        let detail = db.jobs().detail(id).await;
        assert_eq!((detail.summary.state, detail.version), (JobState::Waiting, 0));
    }
}

pub(crate) async fn a_dropped_executor_releases_its_jobs<W: World>(db: &W) {
    let messages = db.messages().await;
    let gate = Gate::closed();
    let executor = holding::<W>(&messages, 4, &gate).await;
    let ids = send::<W>(&messages, 4).await;
    gate.waiting(4).await;
    drop(executor);
    db.counts(JobState::Waiting, 4).await;
    assert!(db.jobs().all().await.iter().all(|job| job.attempt == 0));
    let jobs = db.jobs();
    crate::support::eventually(crate::support::environment::PATIENCE, async || {
        jobs.status().await.unwrap().nodes.is_empty()
    })
    .await;
    gate.open();
    let next = holding::<W>(&messages, 4, &gate).await;
    db.drained().await;
    db.each_once(&ids).await;
    next.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn a_node_that_left_is_forgotten<W: World>(db: &W) {
    let messages = db.messages().await;
    let gate = Gate::closed();
    let executor = holding::<W>(&messages, 4, &gate).await;
    let nodes = db.jobs().status().await.unwrap().nodes;
    assert_eq!(nodes.len(), 1);
    assert_eq!(nodes[0].pid, std::process::id());
    assert!(nodes[0].name.ends_with(&format!(":{}", std::process::id())), "{}", nodes[0].name);
    executor.shutdown(Duration::ZERO).await.unwrap();
    assert!(db.jobs().status().await.unwrap().nodes.is_empty());
}
