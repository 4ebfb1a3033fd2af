//! PostgreSQL: statements of a node that are in flight when it dies or stops.

use std::time::Duration;

use jobwright::Store;
use jobwright::admin::{JobState, Rule, Scope};
use jobwright::internal::Fence;
use jobwright::internal::engine::UnitOfWork;
use jobwright::{ErrorKind, JobId, NodeId};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::jobs::{claim_number, job, message, preclaim};
use crate::support::postgres::{Held, Pg};
use crate::support::{TestDb, eventually};

/// Far below the deadline of a call: a call that takes longer has waited for the lock.
const SOON: Duration = Duration::from_secs(10);

/// The ways in which a node comes to own a job.
#[derive(Clone, Copy)]
enum Way {
    Claim,
    Delivered,
    Preclaimed,
}

/// Closes a gate: every commit that gives a job to a node waits until the returned lock is released. Its statements have run by then.
async fn closed_gate<const POOLED: bool>(db: &Pg<POOLED>) -> Held {
    db.raw(
        "create function {schema}.at_the_gate() returns trigger language plpgsql as $$
         begin perform pg_advisory_xact_lock_shared(hashtext('{schema}.gate')); return null; end $$;
         create constraint trigger at_the_gate after insert or update on {schema}.job deferrable initially deferred
         for each row when (new.lock_owner is not null) execute function {schema}.at_the_gate()",
    )
    .await;
    db.hold("select pg_advisory_xact_lock(hashtext('{schema}.gate'))").await
}

/// Starts to give the node a job, and waits until the commit is at the gate. The task returns how many jobs the node got in the end.
async fn under_way<const POOLED: bool>(
    db: &Pg<POOLED>,
    gate: &Held,
    way: Way,
    node: NodeId,
) -> (JobId, JoinHandle<usize>) {
    let store = db.jobs();
    let message = message(job());
    let id = message.id;
    if !matches!(way, Way::Preclaimed) {
        store.insert(std::slice::from_ref(&message), None).await.unwrap();
    }
    let transactions = db.store();
    let task = tokio::spawn(async move {
        match way {
            Way::Claim => store.take(node, 1).await.len(),
            Way::Delivered => {
                store.claim_delivered(node, claim_number(), &[Fence::new(id, 0)], None).await.unwrap().len()
            }
            Way::Preclaimed => {
                let mut transaction = transactions.begin().await.unwrap();
                let message = [message];
                let inserted = transaction.insert(&message, Some(&preclaim(node, &message))).await.unwrap();
                transaction.commit().await.unwrap();
                inserted.owned.len()
            }
        }
    });
    eventually(SOON, async || {
        assert!(!task.is_finished(), "it did not come to the gate");
        gate.waiting().await == 1
    })
    .await;
    (id, task)
}

/// Nothing waits for the commit, and the dead node stays listed until the job that it took meanwhile is released.
async fn keeps_its_dead_node<const POOLED: bool>(db: &Pg<POOLED>, way: Way) {
    let store = db.jobs();
    let node = store.node().await;
    let gate = closed_gate(db).await;
    let (id, task) = under_way(db, &gate, way, node).await;
    timeout(SOON, store.declare(node)).await.expect("it waited");
    assert_eq!(timeout(SOON, store.release_all_lost()).await.expect("it waited"), (0, 0));
    let known = store.node_heartbeats().await.unwrap();
    assert!(
        known.iter().any(|heartbeat| heartbeat.node == node && heartbeat.dead),
        "it was forgotten with a claim under way"
    );
    assert!(!task.is_finished());
    gate.release().await;
    assert_eq!(timeout(SOON, task).await.expect("it waits for ever").unwrap(), 1);
    assert_eq!(store.state(id).await, Some(JobState::Running));
    assert_eq!(store.release_all_lost().await, (1, 0));
    let row = store.detail(id).await;
    assert_eq!((row.summary.state, row.summary.attempt), (JobState::Waiting, 1));
    assert!(row.errors[0].error.contains("(test)"), "whose it was is known to the end: {:?}", row.errors);
    assert_eq!(store.node_heartbeats().await.unwrap(), []);
}

pub(crate) async fn a_claim_keeps_its_dead_node<const POOLED: bool>(db: &Pg<POOLED>) {
    keeps_its_dead_node(db, Way::Claim).await;
}

pub(crate) async fn a_claim_of_deliveries_keeps_its_dead_node<const POOLED: bool>(db: &Pg<POOLED>) {
    keeps_its_dead_node(db, Way::Delivered).await;
}

pub(crate) async fn a_commit_that_hands_over_keeps_its_dead_node<const POOLED: bool>(db: &Pg<POOLED>) {
    keeps_its_dead_node(db, Way::Preclaimed).await;
}

/// The job that it takes meanwhile is given back at no attempt, and then nothing is left of the node.
async fn retires_after_it<const POOLED: bool>(db: &Pg<POOLED>, way: Way) {
    let store = db.jobs();
    let node = store.node().await;
    let gate = closed_gate(db).await;
    let (id, task) = under_way(db, &gate, way, node).await;
    let retiring = tokio::spawn({
        let store = store.clone();
        async move { store.retire_node(node).await.unwrap() }
    });
    let client = db.client().await;
    let waiting = "select exists (select from pg_locks l join pg_stat_activity a using (pid)
                                  where not l.granted and a.query like '%node_locks()%' and a.query like '%' || $1 || '%')";
    eventually(SOON, async || {
        assert!(!retiring.is_finished(), "it did not wait for what is under way");
        client.query_one(waiting, &[&db.schema()]).await.unwrap().get(0)
    })
    .await;
    gate.release().await;
    assert_eq!(timeout(SOON, task).await.expect("it waits for ever").unwrap(), 1);
    assert_eq!(timeout(SOON, retiring).await.expect("it waits for ever").unwrap(), 1);
    let row = store.detail(id).await;
    assert_eq!((row.summary.state, row.summary.attempt), (JobState::Waiting, 0));
    assert_eq!(store.node_heartbeats().await.unwrap(), []);
}

pub(crate) async fn a_node_retires_after_its_claim<const POOLED: bool>(db: &Pg<POOLED>) {
    retires_after_it(db, Way::Claim).await;
}

pub(crate) async fn a_node_retires_after_its_claim_of_deliveries<const POOLED: bool>(db: &Pg<POOLED>) {
    retires_after_it(db, Way::Delivered).await;
}

pub(crate) async fn a_node_retires_after_its_commit_that_hands_over<const POOLED: bool>(db: &Pg<POOLED>) {
    retires_after_it(db, Way::Preclaimed).await;
}

/// The statement begins while the node lives, and locks the node when that is dead and forgotten: its own snapshot still shows it alive.
pub(crate) async fn a_claim_that_meets_the_death_of_its_node_sees_it<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let id = store.send(job()).await;
    // A monitor that forgets the node, while the lock of the node is not to be had either.
    let monitor = db
        .hold(&format!(
            "select pg_advisory_xact_lock({{schema}}.node_locks(), {node});
             update {{schema}}.node set dead_at = clock_timestamp() where id = {node};
             delete from {{schema}}.node where id = {node}"
        ))
        .await;
    let claiming = tokio::spawn({
        let store = store.clone();
        async move { store.claim_delivered(node, claim_number(), &[Fence::new(id, 0)], None).await }
    });
    let taking = tokio::spawn({
        let store = store.clone();
        async move { store.take(node, 1).await.len() }
    });
    eventually(SOON, async || monitor.waiting().await == 2).await;
    monitor.commit().await;
    let error = timeout(SOON, claiming).await.expect("it waits for ever").unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LeaseLost, "{error}");
    assert_eq!(timeout(SOON, taking).await.expect("it waits for ever").unwrap(), 0);
    assert_eq!(store.state(id).await, Some(JobState::Waiting));
}

/// A new limit counts running jobs, and so waits for claims in flight; but it waits for a silent one only so long, not until the server ends it.
pub(crate) async fn a_limit_does_not_wait_forever<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let (_, running) = store.running(job()).await;
    let mut silent = db.store().begin().await.unwrap();
    let message = [message(job())];
    assert_eq!(silent.insert(&message, Some(&preclaim(node, &message))).await.unwrap().owned.len(), 1);
    let operator = db.waiting_at_most(Duration::from_secs(3)).await;
    let rule = Rule::new(Scope::Kind, "kind").running(1);
    timeout(SOON, operator.put_rule(&rule)).await.expect("it waits for ever").unwrap();
    // The rule holds, and counts the jobs it could see.
    assert!(store.rules().await.unwrap().iter().any(|rule| rule.running == Some(1)));
    store.send(job()).await;
    assert_eq!(store.admit_all().await, 0, "the one that ran has the place");
    silent.rollback().await.unwrap();
    let owner = store.detail(running.id).await.summary.owner.unwrap();
    store.finish(owner, &running).await;
    assert_eq!(store.admit_all().await, 1);
}
