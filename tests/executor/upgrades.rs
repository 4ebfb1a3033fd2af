//! The schema is upgraded while the service goes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jobwright::store::Migration;
use jobwright::{CommandExecutor, MessageServices, Outcome};

use crate::support::environment::{PATIENCE, World as _, quick};
use crate::support::jobs::job;
use crate::support::postgres::Pg;
use crate::support::{SqlDb as _, TestDb as _, eventually};

/// A change that a later release could make: a column, and its value for all jobs.
const A_COLUMN: Migration = Migration {
    version: 2,
    name: "a column",
    min_compatible: 1,
    sql: "alter table {schema}.job add column extra text",
    backfill: Some(
        "update {schema}.job set extra = 'x'
         where ctid = any (array(select ctid from {schema}.job where extra is null limit 5000))",
    ),
};

/// Sends a job and returns how long that took.
async fn send(messages: &MessageServices) -> Duration {
    let start = Instant::now();
    messages.send(job()).await.unwrap();
    start.elapsed()
}

/// A change of the table of jobs has to wait for everybody who reads it, and whoever comes later waits behind it. So it waits for a moment
/// only, lets the others pass, and tries again. `JOBWRIGHT_UPGRADE_ROWS` sets how many jobs there are (default 20,000; each
/// batch of this change scans all of them, so a million takes longer than a test may).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_waits_for_a_long_reader_and_holds_up_no_send() {
    let Some(db) = Pg::<false>::with_ledger().await.map(Arc::new) else { return };
    let rows: u64 = std::env::var("JOBWRIGHT_UPGRADE_ROWS").map_or(20_000, |rows| rows.parse().unwrap());
    let fill = "insert into {schema}.job (id, kind, queue, rank, max_attempts, payload)
                select gen_random_uuid(), 'kind', 'elsewhere', 0, 3, '1' from generate_series(1, ";
    db.raw(&format!("{fill}{rows})")).await;
    let messages = db.messages().await;
    let reader = db.hold("select count(*) from {schema}.job").await;
    let later = db.clone();
    let migrating = tokio::spawn(async move { later.migrate_with(&[A_COLUMN]).await });
    let mut slowest = Duration::ZERO;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        slowest = slowest.max(send(&messages).await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!migrating.is_finished(), "the reader is still there");
    reader.release().await;
    while !migrating.is_finished() {
        slowest = slowest.max(send(&messages).await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let status = migrating.await.unwrap().unwrap();
    assert!(status[1].applied_at.is_some());
    eprintln!("{rows} jobs: migrated after {:?}; the slowest send took {slowest:?}", begun.elapsed());
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    // This build goes on with that schema.
    let executor = CommandExecutor::builder(messages)
        .config(quick())
        .handle("kind", |_| async { Ok(Outcome::Done) })
        .queue("default", 10)
        .start()
        .await
        .unwrap();
    eventually(PATIENCE, async || {
        db.jobs().status().await.unwrap().queues.iter().all(|queue| queue.queue != "default")
    })
    .await;
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
}
