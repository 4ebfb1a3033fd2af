//! PostgreSQL: roles that may connect to the database and have no rights in it.

use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::internal::Fence;
use tokio::time::timeout;

use crate::support::TestDb;
use crate::support::jobs::{claim_number, job, jobs};
use crate::support::postgres::Pg;

/// Far below the deadline of a call: a call that takes longer has waited for the lock.
const SOON: Duration = Duration::from_secs(10);

/// Any role may take any advisory lock of the database. It stops no claim, and a node that stops waits for it only a moment.
pub(crate) async fn the_lock_of_a_node_stops_no_claim<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let sent = store.send_all(jobs(2)).await;
    let node = store.node().await;
    for shared in ["", "_shared"] {
        let stranger = db.hold(&format!("select pg_advisory_xact_lock{shared}({{schema}}.node_locks(), {node})")).await;
        assert_eq!(timeout(SOON, store.take(node, 1)).await.expect("the claim waited").len(), 1, "{shared}");
        stranger.release().await;
    }
    let stranger = db.hold(&format!("select pg_advisory_xact_lock({{schema}}.node_locks(), {node})")).await;
    let id = store.send(job()).await;
    let fence = Fence::new(id, 0);
    let claimed = timeout(SOON, store.claim_delivered(node, claim_number(), &[fence], None)).await.expect("it waited");
    assert_eq!(claimed.unwrap().len(), 1);
    stranger.release().await;
    assert_eq!(store.count(JobState::Running).await, sent.len() + 1);
    // The node is held as well as by the other lock.
    let claim = db.hold(&format!("select pg_advisory_xact_lock({{schema}}.node_locks(), {node})")).await;
    let other = db.hold(&format!("select {{schema}}.hold_node({node})")).await;
    claim.release().await;
    let client = db.client().await;
    let idle = format!("select {}.node_is_idle({node})", db.schema());
    assert!(!client.query_one(&idle, &[]).await.unwrap().get::<_, bool>(0));
    other.release().await;
    assert!(client.query_one(&idle, &[]).await.unwrap().get::<_, bool>(0));
}

/// Nor does a lock with the key of a limit that claims count, as these locks were once.
pub(crate) async fn no_lock_of_a_limit_is_for_all<const POOLED: bool>(db: &Pg<POOLED>) {
    let client = db.client().await;
    let count = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()";
    client.batch_execute("begin; select lock_limits('{1,2}')").await.unwrap();
    assert_eq!(client.query_one(count, &[]).await.unwrap().get::<_, i64>(0), 0, "anybody can take an advisory lock");
    client.batch_execute("rollback").await.unwrap();
}
