//! PostgreSQL: rows that another transaction holds are passed over, and nobody waits for them.

use std::time::Duration;

use jobwright::Fence;
use jobwright::store::schedules::fire_due;
use jobwright::store::{JobState, Rule, Scope, Verdict};
use tokio::time::timeout;

use crate::schedules::{daily, days_ago};
use crate::support::jobs::{ids, job, jobs};
use crate::support::postgres::Pg;
use crate::support::{TestDb, eventually};

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
    let released = timeout(SOON, store.release_lost(10, None)).await.expect("the release waited").unwrap();
    assert_eq!(released.total(), 2);
    held.release().await;
    assert_eq!(store.release_all_lost().await, (1, 0));
    assert_eq!(store.count(JobState::Waiting).await, 3);
}

pub(crate) async fn deliveries_pass_over_them<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let sent = store.send_all(jobs(3)).await;
    let node = store.node().await;
    let held = db.hold(&format!("select from {{schema}}.job where id = '{}' for update", sent[1])).await;
    let fences: Vec<Fence> = sent.iter().map(|id| Fence::new(*id, 0)).collect();
    let taken = timeout(SOON, store.claim_delivered(node, &fences, None)).await.expect("the claim waited").unwrap();
    assert_eq!(ids(&taken), [sent[0], sent[2]]);
    let unheld = timeout(SOON, store.unhold(&[sent[1]])).await.expect("unhold waited").unwrap();
    assert_eq!(unheld.len(), 0);
    held.release().await;
}

pub(crate) async fn hand_outs_pass_over_them<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let sent = store.send_all(jobs(4)).await;
    let held = db.hold(&format!("select from {{schema}}.job where id = '{}' for update", sent[0])).await;
    let out = timeout(SOON, store.hand_out("default", 2, Duration::ZERO)).await.expect("the hand-out waited").unwrap();
    assert_eq!(ids(&out), sent[1..3]);
    held.release().await;
    let held = db.hold(&format!("select from {{schema}}.external_job where id = '{}' for update", sent[1])).await;
    let expired = timeout(SOON, store.expire_external(10)).await.expect("the release waited").unwrap();
    assert_eq!(expired.total(), 1);
    held.release().await;
}

pub(crate) async fn schedulers_pass_over_them<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    for name in ["held", "free"] {
        daily(&store, name, |new| new).await;
        db.make_due(name, days_ago(1)).await;
    }
    let held = db.hold("select from {schema}.schedule where name = 'held' for update").await;
    let fired = timeout(SOON, fire_due(&*store.0, 1000)).await.expect("it waited").unwrap();
    assert_eq!((fired.schedules, fired.jobs), (1, 1));
    held.release().await;
    assert_eq!(fire_due(&*store.0, 1000).await.unwrap().jobs, 1);
}

/// A claim whose answer nobody waits for any more may still be under way on the server when its node stops. What it takes must
/// not be left with an owner that nobody knows.
pub(crate) async fn a_retiring_node_waits_for_its_claims<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let id = store.send_all(jobs(1)).await[0];
    let node = store.node().await;
    let claim = db
        .hold(&format!(
            "select from {{schema}}.node where id = {node} for key share;
             update {{schema}}.job set lock_owner = {node}, version = version + 1, attempt = attempt + 1,
                                       claimed_at = clock_timestamp()"
        ))
        .await;
    let retiring = tokio::spawn({
        let store = store.clone();
        async move { store.retire_node(node).await.unwrap() }
    });
    let client = db.client().await;
    let waiting = "select exists (select from pg_locks l join pg_stat_activity a using (pid)
                                  where not l.granted and a.query like '%' || $1 || '%')";
    eventually(SOON, async || {
        assert!(!retiring.is_finished(), "it did not wait for the claim");
        client.query_one(waiting, &[&db.schema()]).await.unwrap().get(0)
    })
    .await;
    claim.commit().await;
    assert_eq!(timeout(SOON, retiring).await.expect("it waits for ever").unwrap(), 1);
    let row = store.detail(id).await;
    assert_eq!((row.summary.state, row.summary.attempt), (JobState::Waiting, 0));
    assert!(store.status().await.unwrap().nodes.is_empty());
    assert_eq!(store.take(node, 1).await.len(), 0, "a claim that comes later takes nothing");
}

/// The same when an operator declares the node dead: after the claim's commit nothing stays owned by a node that is forgotten.
pub(crate) async fn a_condemned_node_waits_for_its_claims<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let id = store.send_all(jobs(1)).await[0];
    let node = store.node().await;
    let claim = db
        .hold(&format!(
            "select from {{schema}}.node where id = {node} for key share;
             update {{schema}}.job set lock_owner = {node}, version = version + 1, attempt = attempt + 1,
                                       claimed_at = clock_timestamp()"
        ))
        .await;
    let condemning = tokio::spawn({
        let store = store.clone();
        async move { store.condemn(node, Some("ann")).await.unwrap().expect("it is known").waiting }
    });
    let client = db.client().await;
    let waiting = "select exists (select from pg_locks l join pg_stat_activity a using (pid)
                                  where not l.granted and a.query like '%' || $1 || '%')";
    eventually(SOON, async || {
        assert!(!condemning.is_finished(), "it did not wait for the claim");
        client.query_one(waiting, &[&db.schema()]).await.unwrap().get(0)
    })
    .await;
    claim.commit().await;
    assert_eq!(timeout(SOON, condemning).await.expect("it waits for ever").unwrap(), 1);
    let row = store.detail(id).await;
    assert_eq!((row.summary.state, row.summary.attempt), (JobState::Waiting, 1));
    assert!(store.status().await.unwrap().nodes.is_empty());
    assert_eq!(store.take(node, 1).await.len(), 0, "a claim that comes later takes nothing");
}

/// A round that is about to park a job behind a gate, and a rule that opens it: they take turns, or the job would wait for ever.
pub(crate) async fn a_rule_waits_for_a_round_under_way<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    store.put_rule(&Rule::new(Scope::Kind, "kind").paused(true)).await.unwrap();
    let id = store.send(job()).await;
    let round = db
        .hold(
            "select from {schema}.admission for update;
             with parked as (delete from {schema}.job returning *)
             insert into {schema}.blocked_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, gate)
             select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, 'k:kind' from parked",
        )
        .await;
    let lifting = tokio::spawn({
        let store = store.clone();
        async move { store.put_rule(&Rule::new(Scope::Kind, "kind")).await.unwrap() }
    });
    let client = db.client().await;
    let waiting = "select exists (select from pg_locks l join pg_stat_activity a using (pid)
                                  where not l.granted and a.query like '%' || $1 || '%')";
    eventually(SOON, async || {
        assert!(!lifting.is_finished(), "it did not wait for the round");
        client.query_one(waiting, &[&db.schema()]).await.unwrap().get(0)
    })
    .await;
    round.commit().await;
    timeout(SOON, lifting).await.expect("it waits for ever").unwrap();
    assert_eq!(store.admit_all().await, 1);
    let node = store.node().await;
    assert_eq!(store.take_one(node).await.id, id);
}
