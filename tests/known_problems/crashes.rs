//! Nodes that die, and jobs that take long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::internal::engine::testing;
use jobwright::{CommandExecutor, ExecutorConfig, JobId, MessageServices, NewJob, Outcome};

use crate::support::environment::{Gate, PATIENCE, World, lease, quick};
use crate::support::eventually;
use crate::support::jobs::Jobs;

/// Starts an executor whose handler writes its job's id into the ledger.
async fn noting<W: World>(messages: &MessageServices<W::Store>, config: ExecutorConfig) -> CommandExecutor<W::Store> {
    CommandExecutor::builder(messages.clone())
        .config(config)
        .handle_with("kind", |cx| {
            Box::pin(async move {
                let line = cx.job().id.to_string();
                W::note(cx.transaction().await?, &line).await?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap()
}

fn job() -> NewJob {
    NewJob::json("kind", &())
}

/// Sends a job and lets a node claim it that dies at once. No other job may be claimable.
async fn dies_with<W: World>(db: &W, jobs: &Jobs, job: NewJob) -> JobId {
    let id = jobs.send(job).await;
    jobs.admit_all().await;
    let node = jobs.node().await;
    assert_eq!(jobs.take_one(node).await.id, id);
    db.bury(node).await;
    id
}

/// In those engines a process instance has its own lease, in the name of a node that never comes back, and all its jobs wait for an hour. Here the
/// job itself holds the group: when its node's lease is over it runs again, and the others after it.
pub(crate) async fn a_crash_holds_its_group_no_longer_than_its_job<W: World>(db: &W) {
    let (jobs, messages) = (db.jobs(), db.messages().await);
    let mut ids = vec![dies_with(db, &jobs, job().exclusive("instance-1")).await];
    ids.extend(jobs.send_all((0..5).map(|_| job().exclusive("instance-1"))).await);
    let executor = noting::<W>(&messages, quick()).await;
    db.drained().await;
    db.each_once(&ids).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    eventually(PATIENCE, async || jobs.permit_faults().await.unwrap().is_empty()).await;
}

/// In those engines a lease belongs to the job, ends while it runs, and another node runs it too; users renew it by SQL. Here it belongs to the node,
/// whose heartbeat renews it while another node looks for jobs that it could release.
pub(crate) async fn a_job_that_outlives_its_lease_runs_once<W: World>(db: &W) {
    const LEASE: u64 = 4;
    let (gate, runs) = (Gate::closed(), Arc::new(AtomicU32::new(0)));
    let mut executors = Vec::new();
    for _ in 0..2 {
        let (door, counted) = (gate.clone(), runs.clone());
        let executor = CommandExecutor::builder(db.messages().await)
            .config(lease(LEASE).poll_interval(Duration::from_millis(100)))
            .handle_with("kind", move |cx| {
                let (door, counted) = (door.clone(), counted.clone());
                Box::pin(async move {
                    counted.fetch_add(1, Ordering::Relaxed);
                    door.pass().await;
                    let line = cx.job().id.to_string();
                    W::note(cx.transaction().await?, &line).await?;
                    Ok(Outcome::Done)
                })
            })
            .start()
            .await
            .unwrap();
        executors.push(executor);
    }
    let jobs = db.jobs();
    let id = jobs.send(job()).await;
    db.reaches(id, JobState::Running).await;
    let began = jobs.detail(id).await.summary.claimed_at.unwrap();
    // As long as two and a half leases, by the clock that ends them.
    let mut probe = 0;
    eventually(PATIENCE, async || {
        probe += 1;
        let mark = jobs.send(NewJob::json("mark", &probe).queue("nobody")).await;
        let now = jobs.detail(mark).await.summary.created_at;
        jobs.delete(&jobwright::admin::JobFilter::ids([mark]), false).await.unwrap();
        now.duration_since(began).as_secs() > 2 * LEASE as i64 + LEASE as i64 / 2
    })
    .await;
    gate.open();
    db.gone(id).await;
    db.each_once(&[id]).await;
    let mut lost = 0;
    for executor in executors {
        lost += executor.shutdown(Duration::from_secs(5)).await.unwrap().leases_lost;
    }
    // A node that was stopped for a whole lease has lost it, and its job had to run again.
    let runs = runs.load(Ordering::Relaxed);
    assert!(runs == 1 || lost > 0, "{runs} runs, and no lease was lost");
}

/// In those engines some jobs stay in the table forever, until a user runs them by hand. Here every wait ends: all kinds of waits at once, and an
/// executor that comes later.
pub(crate) async fn nothing_waits_for_a_hand_to_free_it<W: World>(db: &W) {
    let (jobs, messages) = (db.jobs(), db.messages().await);
    // Its node died, after its retry timer had ended.
    let node = jobs.node().await;
    let mut ids = vec![jobs.send(job()).await];
    let claimed = jobs.take_one(node).await;
    jobs.fail(node, &claimed, Duration::ZERO, "failed").await;
    eventually(PATIENCE, async || {
        jobs.promote().await;
        jobs.state(ids[0]).await == Some(JobState::Waiting)
    })
    .await;
    assert_eq!(jobs.take_one(node).await.id, ids[0]);
    db.bury(node).await;
    // Behind a group whose owner died.
    ids.push(dies_with(db, &jobs, job().ordered("instance-1")).await);
    ids.push(jobs.send(job().ordered("instance-1")).await);
    // Hidden for a delivery that got lost.
    let mut held = testing::message(job()).unwrap();
    held.hidden_for = Duration::from_secs(1);
    jobs.insert(std::slice::from_ref(&held), None).await.unwrap();
    ids.push(held.id);
    // Due later, and sent when no executor listened.
    ids.push(jobs.send(job().delay(Duration::from_millis(300))).await);
    ids.push(jobs.send(job()).await);
    // Preclaimed by a node that is dead by now.
    let dead = jobs.node().await;
    ids.push(jobs.send_owned(job(), dead).await.id);
    db.bury(dead).await;

    let executor = noting::<W>(&messages, quick()).await;
    db.drained().await;
    db.each_once(&ids).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}
