//! PostgreSQL: rows that another transaction holds are passed over, and nobody waits for them.

use std::time::Duration;

use jobwright::store::{JobState, Verdict};
use tokio::time::timeout;

use crate::support::TestDb;
use crate::support::jobs::{ids, jobs};
use crate::support::postgres::Pg;

/// Far below the deadline of a call: whoever takes longer has waited for the lock.
const SOON: Duration = Duration::from_secs(10);

pub(crate) async fn a_claim_passes_over_them<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let sent = store.send_all(jobs(4)).await;
    let node = store.node().await;
    let held =
        db.hold(&format!("select from {{schema}}.job where id in ('{}', '{}') for update", sent[0], sent[2])).await;
    let claimed = timeout(SOON, store.take(node, 2)).await.expect("the claim waited");
    assert_eq!(ids(&claimed), [sent[1], sent[3]], "as many as asked for, the best of those that are free");
    held.release().await;
    assert_eq!(ids(&store.take(node, 2).await), [sent[0], sent[2]]);
}

pub(crate) async fn promoters_pass_over_them<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    store.send_all(jobs(3)).await;
    let node = store.node().await;
    for job in store.take(node, 3).await {
        assert!(store.settle_one(node, job.fence(), Verdict::Snooze(Duration::ZERO)).await);
    }
    let held = db.hold("select from {schema}.timer_job order by due_at limit 1 for update").await;
    let promoted = timeout(SOON, store.promote_due(10)).await.expect("the promotion waited").unwrap();
    assert_eq!(promoted.jobs, 2);
    held.release().await;
    assert_eq!(store.promote().await, 1);
}

pub(crate) async fn monitors_pass_over_them<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    store.send_all(jobs(3)).await;
    let node = store.node().await;
    store.take(node, 3).await;
    db.bury(node).await;
    let held = db.hold("select from {schema}.job order by seq limit 1 for update").await;
    let released = timeout(SOON, store.release_lost(10)).await.expect("the release waited").unwrap();
    assert_eq!(released.total(), 2);
    held.release().await;
    assert_eq!(store.release_all_lost().await, (1, 0));
    assert_eq!(store.count(JobState::Waiting).await, 3);
}
