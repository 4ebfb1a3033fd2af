//! PostgreSQL: what a transaction with an old snapshot can cause.

use jobwright::Store;
use jobwright::admin::JobState;
use jobwright::internal::engine::{Settlement, UnitOfWork, Verdict};
use jobwright::{JobId, NewJob};

use crate::support::TestDb;
use crate::support::jobs::{LATER, job, jobs, messages};
use crate::support::postgres::Pg;

/// Sends an id in a transaction whose snapshot is older than the change that `before` makes to that id. It does not see the change, so both jobs
/// exist.
async fn sent_once_more<const POOLED: bool>(db: &Pg<POOLED>, again: NewJob, before: impl AsyncFnOnce()) {
    let mut old = db.store().begin().await.unwrap();
    old.batch_execute("set transaction isolation level repeatable read; select 1").await.unwrap();
    before().await;
    assert_eq!(old.insert(&messages([again]), None).await.unwrap().rows, 1);
    old.commit().await.unwrap();
}

/// An id stands in two tables, and one row belongs to a dead node in its last attempt: all other jobs of that node are released.
pub(crate) async fn an_id_sent_during_a_move_does_not_block_recovery<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let id = JobId::new();
    let twice = || job().id(id).max_attempts(1);
    sent_once_more(db, twice(), async || {
        let (node, claimed) = store.running(twice()).await;
        assert!(store.settle_one(node, claimed.fence(), Verdict::Dead).await);
    })
    .await;
    let innocent = store.send_all(jobs(100)).await;
    let node = store.node().await;
    assert_eq!(store.take(node, 1000).await.len(), 101);
    db.bury(node).await;
    assert_eq!(store.release_all_lost().await, (100, 1));
    for id in innocent {
        assert_eq!(store.state(id).await, Some(JobState::Waiting));
    }
    assert_eq!(store.state(id).await, Some(JobState::Dead));
    assert_eq!(store.all().await.len(), 101, "one row of it is left");
}

/// The same with a timer: neither its failures nor its due date blocks others.
pub(crate) async fn an_id_sent_past_a_move_vetoes_no_outcome<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let id = JobId::new();
    let node = store.node().await;
    sent_once_more(db, job().id(id), async || {
        store.send(job().id(id)).await;
        let claimed = store.take_one(node).await;
        store.fail(node, &claimed, LATER, "no").await;
    })
    .await;
    store.send(job()).await;
    let claimed = store.take(node, 10).await;
    assert_eq!(claimed.len(), 2);
    let outcomes: Vec<Settlement> =
        claimed.iter().map(|job| Settlement::new(job.fence(), Verdict::Retry(LATER)).error("no", None)).collect();
    assert_eq!(store.settle(node, &outcomes).await.unwrap().len(), 2, "in one batch");
    assert_eq!(store.count(JobState::Timer).await, 2);
    assert_eq!(store.all().await.len(), 2, "one row of it is left");
}
