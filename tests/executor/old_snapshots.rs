//! PostgreSQL: jobs whose id is in two tables, because a transaction used an old snapshot.

#![expect(clippy::disallowed_methods, reason = "the caller's commit is what this is about; it looks at what is there")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::{CommandExecutor, JobError, JobId, NewJob, Outcome};
use tokio_postgres::IsolationLevel;

use crate::support::TestDb;
use crate::support::environment::{World, at_once, quick};
use crate::support::postgres::Pg;

/// The first job's dead letter blocks the outcome of the second. The handler runs as often as the attempts of both allow, and not once more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_of_the_same_id_gives_no_attempt_back() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let id = JobId::new();
    let killer = || NewJob::json("killer", &()).id(id).max_attempts(2);
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .kind_options("killer", at_once())
        .handle("killer", move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Err(JobError::new("no")) }
        })
        .handle("after", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    let mut client = db.client().await;
    let old = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await.unwrap();
    old.batch_execute("select 1").await.unwrap();
    messages.send(killer()).await.unwrap();
    db.reaches(id, JobState::Dead).await;
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    let mut enlisted = messages.enlist(&old);
    enlisted.send(killer()).unwrap();
    let flushed = enlisted.flush().await.unwrap();
    old.commit().await.unwrap();
    flushed.committed();
    let rows = "select count(*) from job where id = $1";
    let left = async || db.client().await.query_one(rows, &[id.as_uuid()]).await.unwrap().get::<_, i64>(0);
    crate::support::eventually(Duration::from_secs(10), async || runs.load(Ordering::SeqCst) >= 4 && left().await == 0)
        .await;
    // Others run, and it does not any more.
    for _ in 0..3 {
        let after = messages.send(NewJob::json("after", &())).await.unwrap();
        db.gone(after).await;
    }
    let timers = db.jobs().count(JobState::Timer).await;
    assert_eq!((runs.load(Ordering::SeqCst), left().await, timers), (4, 0, 0));
    assert_eq!(db.jobs().state(id).await, Some(JobState::Dead));
    let stats = executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!((stats.failed, stats.refused), (4, 0));
}
