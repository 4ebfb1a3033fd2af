//! The database refuses outcomes for reasons that no job is to blame for: a missing right, a publication of a table without a replica identity.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::{CommandExecutor, JobError, JobId, MessageServices, NewJob, Outcome};

use crate::support::environment::{Gate, PATIENCE, World as _, lease};
use crate::support::logs::Logs;
use crate::support::postgres::Pg;
use crate::support::{TestDb as _, eventually};

const JOBS: usize = 40;

/// The warning that is to come once.
const KEPT: &str = "no job's fault";

/// A database that refuses to remove jobs from `job`, which each outcome has to do, with this SQLSTATE. A sequence counts the refusals, since it keeps
/// its value after a rollback.
async fn refuse(db: &Pg<false>, state: &str, condition: &str) {
    db.raw(&format!(
        "create sequence {{schema}}.refusals;
         create function {{schema}}.refuse() returns trigger language plpgsql as
             $$ begin
                 perform nextval('{{schema}}.refusals');
                 raise exception 'refused as a whole' using errcode = '{state}';
             end $$;
         create trigger refuse before delete on {{schema}}.job for each row {condition} execute function {{schema}}.refuse()"
    ))
    .await;
}

/// Waits until the executor has met that many more refusals.
async fn refusals(db: &Pg<false>, more: i64) {
    let client = db.aside().await;
    let count = async || {
        let row = client.query_one("select case when is_called then last_value else 0 end from refusals", &[]).await;
        row.unwrap().get::<_, i64>(0)
    };
    let end = count().await + more;
    eventually(PATIENCE, async || count().await >= end).await;
}

async fn send(messages: &MessageServices, kind: &str) -> Vec<JobId> {
    let mut cx = messages.begin();
    let ids = (0..JOBS).map(|_| cx.send(NewJob::json(kind, &()).max_attempts(3)).unwrap()).collect();
    cx.commit().await.unwrap();
    ids
}

/// Starts an executor whose handlers end together.
async fn start(messages: &MessageServices, runs: &Arc<AtomicUsize>, gate: &Gate) -> CommandExecutor {
    let counted = |ends: fn() -> Result<Outcome, JobError>| {
        let (runs, gate) = (runs.clone(), gate.clone());
        move |_| {
            runs.fetch_add(1, Ordering::Relaxed);
            let gate = gate.clone();
            async move {
                gate.pass().await;
                ends()
            }
        }
    };
    CommandExecutor::builder(messages.clone())
        .config(lease(30).poll_interval(Duration::from_millis(100)))
        .queue("default", 2 * JOBS)
        .handle("done", counted(|| Ok(Outcome::Done)))
        .handle("fails", counted(|| Err(JobError::retry_after("no", Duration::from_secs(3600)))))
        .start()
        .await
        .unwrap()
}

/// Nothing runs a second time, no attempt is lost, and nothing becomes a dead letter. The log says so once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_wait_in_memory_until_the_database_takes_them() {
    for state in ["55000", "42501", "42883", "58030", "55P03"] {
        let Some(db) = Pg::<false>::with_ledger().await else { return };
        let logs = Logs::capture();
        let before = logs.about(KEPT, "WARN").len();
        let messages = db.messages().await;
        let ids = [send(&messages, "done").await, send(&messages, "fails").await].concat();
        refuse(&db, state, "").await;
        let (runs, gate) = (Arc::default(), Gate::closed());
        let executor = start(&messages, &runs, &gate).await;
        gate.waiting(ids.len()).await;
        gate.open();
        refusals(&db, 6).await;
        let all = db.jobs().all().await;
        assert_eq!(all.len(), ids.len(), "{state}");
        assert!(all.iter().all(|job| job.state == JobState::Running && job.attempt == 1), "{state}: {all:?}");
        db.raw("drop trigger refuse on {schema}.job").await;
        db.counts(JobState::Timer, JOBS).await;
        eventually(PATIENCE, async || db.jobs().all().await.len() == JOBS).await;
        assert_eq!(runs.load(Ordering::Relaxed), 2 * JOBS, "{state}: handlers ran again");
        let stats = executor.shutdown(Duration::ZERO).await.unwrap();
        assert_eq!((stats.in_flight, stats.refused), (0, 0), "{state}");
        if state != "55P03" {
            let warned = logs.about(KEPT, "WARN").len() - before;
            assert_eq!(warned, 1, "{state}");
        }
    }
}

/// Such a reason may still concern a single row, by a policy of somebody else's for example. The others are recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_waits_alone_holds_up_no_other() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let ids = send(&messages, "done").await;
    let bad = ids[0];
    refuse(&db, "42501", &format!("when (old.id = '{bad}')")).await;
    let (runs, gate) = (Arc::default(), Gate::closed());
    let executor = start(&messages, &runs, &gate).await;
    gate.waiting(JOBS).await;
    gate.open();
    for id in &ids[1..] {
        db.gone(*id).await;
    }
    // What comes later is not held up either.
    for id in send(&messages, "done").await {
        db.gone(id).await;
    }
    refusals(&db, 2).await;
    assert_eq!(db.jobs().state(bad).await, Some(JobState::Running));
    db.raw("drop trigger refuse on {schema}.job").await;
    db.gone(bad).await;
    assert_eq!(runs.load(Ordering::Relaxed), 2 * JOBS);
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// A node that stops does not wait for ever. Its jobs are given back, and run elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stops_gives_them_back() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let config = db.config().call_timeout(Duration::from_secs(2));
    let messages = MessageServices::postgres(&config).await.unwrap();
    send(&messages, "done").await;
    refuse(&db, "42501", "").await;
    let (runs, gate) = (Arc::default(), Gate::closed());
    let executor = start(&messages, &runs, &gate).await;
    gate.waiting(JOBS).await;
    gate.open();
    refusals(&db, 2).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    let all = db.jobs().all().await;
    assert!(all.len() == JOBS && all.iter().all(|job| job.state == JobState::Waiting && job.attempt == 0), "{all:?}");
}
