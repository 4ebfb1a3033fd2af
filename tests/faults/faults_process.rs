//! Worker processes that are killed, or kill themselves.

use std::time::Duration;

use jobwright::NewJob;
use jobwright::admin::JobState;

use crate::faults::ledger_worker::{Does, Orders, job, send, start};
use crate::support::environment::{PATIENCE, World, lease};
use crate::support::postgres::Pg;
use crate::support::process::Sign;
#[cfg(feature = "sqlite")]
use crate::support::sqlite::SqliteDb;
use crate::support::sqlx_0_8::SqlxDb;
use crate::support::{TestDb, eventually};

/// Kills a worker while it holds `held` jobs, some with writes in open transactions, and completes others.
async fn killed_with_running_jobs<W: World>(db: &W, held: usize, in_transactions: usize) {
    let messages = db.messages().await;
    let mut ids = send::<W>(&messages, Does::NoteThenWait, in_transactions).await;
    ids.extend(send::<W>(&messages, Does::WaitThenNote, held - in_transactions).await);
    ids.extend(send::<W>(&messages, Does::Note, 200).await);
    let never = Sign::new();
    let mut victim = Orders::new(&db.config(), "victim").on::<W>().concurrency(held).waiting_for(&never).start();
    db.counts(JobState::Running, held).await;
    victim.kill();

    let second = Sign::new();
    let rescuer = start::<W>(&messages, lease(1), held, Some(second.path().to_owned())).await;
    // All of them run again, on another node.
    eventually(PATIENCE, async || {
        let running = db.jobs().find(&jobwright::admin::JobFilter::state(JobState::Running)).await;
        running.len() == held && running.iter().all(|job| job.attempt == 2)
    })
    .await;
    let detail = db.jobs().detail(ids[in_transactions]).await;
    assert_eq!(detail.errors.len(), 1, "{:?}", detail.errors);
    assert!(detail.errors[0].error.contains("owner lost") && detail.errors[0].error.contains("victim"));
    assert_eq!(detail.errors[0].attempt, 1);

    second.give("");
    db.drained().await;
    db.each_once(&ids).await;
    assert_eq!(rescuer.stats().refused, 0);
    assert_eq!(rescuer.telemetry().metrics().released["owner_lost"], held as u64);
    rescuer.shutdown(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_with_a_thousand_running_jobs() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    killed_with_running_jobs(&db, 1000, 6).await;
}

/// The transactions are those of sqlx.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_with_transactions_of_sqlx() {
    let Some(db) = SqlxDb::with_ledger().await else { return };
    killed_with_running_jobs(&db, 100, 6).await;
}

/// Two processes share a file.
#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_on_an_embedded_database() {
    let db = SqliteDb::with_ledger().await.unwrap();
    // One writer at a time: an open transaction would block the others, so there is only one, at the end.
    killed_with_running_jobs(&db, 200, 0).await;
}

/// The write lock of a killed process does not outlive it, and its write is undone.
#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_of_the_writer_of_an_embedded_database() {
    let db = SqliteDb::with_ledger().await.unwrap();
    let messages = db.messages().await;
    let ids = send::<SqliteDb>(&messages, Does::NoteThenWait, 1).await;
    let never = Sign::new();
    let mut victim = Orders::new(&db.config(), "victim").waiting_for(&never).start();
    let writer_is_busy = || {
        db.connection().busy_timeout(Duration::ZERO).is_ok() && {
            let connection = db.connection();
            connection.busy_timeout(Duration::from_millis(1)).unwrap();
            connection.execute_batch("begin immediate; rollback").is_err()
        }
    };
    db.counts(JobState::Running, 1).await;
    // Longer than any statement of the engine: it is the handler's transaction.
    eventually(PATIENCE, async || (0..20).all(|_| writer_is_busy())).await;
    victim.kill();
    let rescuer = start::<SqliteDb>(&messages, lease(1), 8, None).await;
    db.drained().await;
    db.each_once(&ids).await;
    rescuer.shutdown(Duration::ZERO).await.unwrap();
}

/// Workers are killed one after the other under load, each in the middle of its work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_again_and_again_under_load() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let mut ids = Vec::new();
    let mut in_hand = 0;
    for round in 0..5 {
        let mut cx = messages.begin();
        for _ in 0..400 {
            // Attempts enough to survive all kills.
            ids.push(cx.send(job(Does::Note).max_attempts(100)).unwrap());
        }
        cx.commit().await.unwrap();
        let before = db.ledger().await.len();
        let mut victim = Orders::new(&db.config(), &format!("victim {round}")).start();
        eventually(PATIENCE, async || db.ledger().await.len() >= before + 50).await;
        victim.kill();
        in_hand += db.jobs().count(JobState::Running).await;
    }
    assert!(in_hand > 0, "no worker was killed in the middle of anything");
    let rescuer = start::<Pg<false>>(&messages, lease(1), 8, None).await;
    db.drained().await;
    db.each_once(&ids).await;
    rescuer.shutdown(Duration::ZERO).await.unwrap();
}

/// A name is for people: nodes are distinguished by their ids.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_of_one_name_are_two_nodes() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let ids = send::<Pg<false>>(&messages, Does::WaitThenNote, 20).await;
    let sign = Sign::new();
    let mut first = Orders::new(&db.config(), "twin").concurrency(10).waiting_for(&sign).start();
    db.counts(JobState::Running, 10).await;
    let second = Orders::new(&db.config(), "twin").concurrency(10).waiting_for(&sign).start();
    db.counts(JobState::Running, 20).await;

    let running = async || db.jobs().find(&jobwright::admin::JobFilter::state(JobState::Running)).await;
    let owned_by = |jobs: &[jobwright::admin::JobSummary], node| {
        jobs.iter().filter(|job| job.owner == Some(node)).map(|job| job.id).collect::<std::collections::BTreeSet<_>>()
    };
    let nodes = db.jobs().status().await.unwrap().nodes;
    assert!(nodes.len() == 2 && nodes.iter().all(|node| node.name == "twin"), "{nodes:?}");
    let survivor = nodes.iter().find(|node| node.pid == second.pid()).unwrap().id;
    let before = owned_by(&running().await, survivor);
    assert_eq!(before.len(), 10);

    first.kill();
    // The survivor is also the one that notices.
    db.counts(JobState::Waiting, 10).await;
    let after = running().await;
    assert_eq!(owned_by(&after, survivor), before, "the survivor lost or took jobs");
    assert!(after.iter().all(|job| job.attempt == 1));
    sign.give("");
    db.drained().await;
    db.each_once(&ids).await;
}

/// A job that kills its process gets as many processes as it has attempts, not more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_aborts_its_process_ends_as_a_dead_letter() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let poison = messages.send(job(Does::NoteThenAbort).max_attempts(3)).await.unwrap();
    for attempt in 1..=3 {
        let mut worker = Orders::new(&db.config(), "victim").start();
        let status = worker.ended(PATIENCE);
        assert!(!status.success(), "attempt {attempt}: {status}");
    }
    // The next one finds it dead.
    let _worker = Orders::new(&db.config(), "survivor").start();
    db.reaches(poison, JobState::Dead).await;
    let detail = db.jobs().detail(poison).await;
    assert_eq!(detail.dead.unwrap().1, "owner lost");
    assert_eq!(detail.errors.iter().map(|error| error.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(detail.errors.iter().all(|error| error.error.contains("owner lost")), "{:?}", detail.errors);
    assert!(db.ledger().await.is_empty(), "a transaction that never committed left something");
    // Others are not affected.
    let good = messages.send(job(Does::Note)).await.unwrap();
    db.gone(good).await;
    db.each_once(&[good]).await;
}

/// A kind without a handler loses no attempt, however many workers come and go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_leaves_unknown_kinds_untouched() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let unknown = messages.send(NewJob::json("unknown", &1)).await.unwrap();
    let ids = send::<Pg<false>>(&messages, Does::WaitThenNote, 1).await;
    let never = Sign::new();
    let mut victim = Orders::new(&db.config(), "victim").waiting_for(&never).start();
    db.reaches(ids[0], JobState::Running).await;
    victim.kill();
    let rescuer = start::<Pg<false>>(&messages, lease(1), 8, None).await;
    db.gone(ids[0]).await;
    let detail = db.jobs().detail(unknown).await;
    assert_eq!((detail.summary.state, detail.summary.attempt, detail.version), (JobState::Waiting, 0, 0));
    rescuer.shutdown(Duration::ZERO).await.unwrap();
}
