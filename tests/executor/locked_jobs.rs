//! PostgreSQL: an application, an operator or a reader locks the rows of jobs while they run. That is their outcome's problem, and nobody else's.

use std::time::{Duration, Instant};

use jobwright::admin::JobState;
use jobwright::internal::Submission;
use jobwright::internal::engine::Received;
use jobwright::{CommandExecutor, JobError, JobId, NewJob, Outcome, Unique};

use crate::support::environment::{Gate, PATIENCE, World as _, at_once, patient};
use crate::support::jobs::message;
use crate::support::logs::Logs;
use crate::support::postgres::Pg;
use crate::support::private_pg::PrivatePg;
use crate::support::{TestDb, eventually};

/// Far below the deadline of a call: what takes longer has waited for the lock.
const SOON: Duration = Duration::from_secs(15);
/// How many jobs end meanwhile.
const COUNT: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_of_others_are_recorded_meanwhile() {
    let logs = Logs::capture();
    let Some(db) = Pg::<false>::create().await else { return };
    let (messages, gate) = (db.messages().await, Gate::closed());
    let (done, fails) = (gate.clone(), gate.clone());
    let executor = CommandExecutor::builder(messages.clone())
        .config(patient())
        .queue("default", 20)
        .kind_options("fails", at_once())
        .handle("done", move |_| {
            let gate = done.clone();
            async move {
                gate.pass().await;
                Ok(Outcome::Done)
            }
        })
        .handle("fails", move |_| {
            let gate = fails.clone();
            async move {
                gate.pass().await;
                Err(JobError::new("as it should"))
            }
        })
        .handle("quick", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    let locked = [
        NewJob::json("done", &()),
        NewJob::json("done", &()).exclusive("group"),
        NewJob::json("fails", &()).max_attempts(1),
    ];
    let mut ids = Vec::new();
    for job in locked {
        ids.push(messages.send(job).await.unwrap());
    }
    gate.waiting(3).await;
    let held = db.hold("select from {schema}.job where lock_owner is not null for update").await;
    gate.open();
    // Together with the locked ones, and after them.
    for _ in 0..2 {
        for _ in 0..COUNT / 2 {
            messages.send(NewJob::json("quick", &()).exclusive("others")).await.unwrap();
            messages.send(NewJob::json("quick", &())).await.unwrap();
        }
        eventually(SOON, async || db.jobs().all().await.len() == ids.len()).await;
    }
    eventually(SOON, async || ids.iter().all(|id| logs.contains(&id.to_string()))).await;
    assert!(logs.contains("held_by=\"pid "), "it does not say who holds them");
    assert_eq!(db.jobs().count(JobState::Running).await, 3);
    held.release().await;
    db.gone(ids[0]).await;
    db.gone(ids[1]).await;
    db.reaches(ids[2], JobState::Dead).await;
    let jobs = db.jobs();
    eventually(PATIENCE, async || jobs.permit_faults().await.unwrap().is_empty()).await;
    let stats = executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!((stats.done, stats.failed + stats.other, stats.refused), (2 * COUNT as u64 + 2, 1, 0));
}

/// A node that stops waits for the lock no longer than for anything else, and gives back what is not locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stops_gives_back_the_others() {
    let Some(db) = Pg::<false>::create().await else { return };
    let store = db.jobs();
    store.send_all((0..3).map(|_| NewJob::json("any", &()))).await;
    let node = store.node().await;
    let claimed = store.take(node, 3).await;
    let held = db.hold(&format!("select from {{schema}}.job where id = '{}' for update", claimed[0].id)).await;
    let released = tokio::time::timeout(SOON, store.retire_node(node)).await.expect("it waits for the lock").unwrap();
    assert_eq!(released, 2);
    assert_eq!(store.count(JobState::Waiting).await, 2);
    assert!(store.heartbeat_of(node).await.dead, "a monitor has to release the other");
    held.release().await;
    assert_eq!(store.release_all_lost().await, (1, 0));
}

/// Nothing can pass the lock of a whole table. It is named, and is not taken for a clock that was set, nor for a lost lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_holder_of_a_table_is_named() {
    let logs = Logs::capture();
    let Some(db) = Pg::<false>::create().await else { return };
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(patient().poll_interval(Duration::from_millis(100)))
        .handle("any", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    let began = Instant::now();
    let held = db.hold("lock table {schema}.job in access exclusive mode").await;
    eventually(SOON, async || logs.contains("statement=\"claim\" held_by=\"pid ")).await;
    // So long that an answer that came late looks like a step.
    eventually(SOON, async || began.elapsed() > Duration::from_secs(5)).await;
    held.release().await;
    let id = messages.send(NewJob::json("any", &())).await.unwrap();
    db.gone(id).await;
    // Later looks compare with the late one.
    for _ in 0..3 {
        let id = messages.send(NewJob::json("any", &()).delay(Duration::from_millis(200))).await.unwrap();
        db.gone(id).await;
    }
    assert!(!logs.contains("clock was set"));
    let stats = executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!((stats.done, stats.leases_lost), (4, 0));
}

/// A transaction that was prepared has no process, may stay for days, and is named nowhere else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_transaction_is_named() {
    let server = PrivatePg::start_with(&["max_prepared_transactions = 5"], &[]);
    let db = Pg::create_on(&server.url()).await;
    let store = db.jobs();
    let (node, job) = store.running(NewJob::json("kind", &())).await;
    let lock = format!("select from {{schema}}.job where id = '{}' for update", job.id);
    for (work, name) in
        [(lock.as_str(), "the row"), ("select {schema}.send('kind', '{}', unique_key => 'k')", "the key")]
    {
        db.raw(&format!("begin; {work}; prepare transaction '{name}'")).await;
    }
    let held = store.held(node, &[job.fence()]).await.unwrap();
    assert!(held.len() == 1 && held[0].held_by.contains("\"the row\""), "{held:?}");
    let keyed = message(NewJob::json("kind", &()).id(JobId::new()).unique(Unique::key("k")));
    let submission = [Submission { message: keyed, digest: [0; 32] }];
    // The holder is looked for while the statement waits for it once more. A busy machine may take longer than that, so it is tried again.
    eventually(PATIENCE, async || {
        let answers = store.receive(&submission).await.unwrap();
        let [Received::Undecided { held_by, .. }] = &answers[..] else { panic!("{answers:?}") };
        held_by.contains("\"the key\"")
    })
    .await;
    for name in ["the row", "the key"] {
        db.client().await.batch_execute(&format!("rollback prepared '{name}'")).await.unwrap();
    }
    store.finish(node, &job).await;
}
