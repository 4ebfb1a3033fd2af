//! PostgreSQL: rows that another transaction has locked are passed over, and nothing waits for them.

use std::time::Duration;

use jobwright::Store;
use jobwright::admin::{JobFilter, JobState, Released, Rule, Scope};
use jobwright::internal::Fence;
use jobwright::internal::engine::schedules::fire_due;
use jobwright::internal::engine::{Settlement, UnitOfWork, Verdict};
use jobwright::{DatabaseConfig, JobId, NodeId};
use tokio::time::timeout;

use crate::conformance::schedules::{daily, days_ago};
use crate::support::jobs::{LATER, claim_number, hand_out_number, ids, job, jobs, messages, preclaim};
use crate::support::postgres::Pg;
use crate::support::{TestDb, eventually};

/// Far below the deadline of a call: a call that takes longer has waited for the lock.
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

/// A process that fell silent in the middle of a commit with a local handoff locks its own node. That blocks nothing: neither other nodes' jobs nor
/// the release of its own. The node is only forgotten later.
pub(crate) async fn declarations_of_death_pass_over_them<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    store.send_all(jobs(2)).await;
    let (silent, dead) = (store.node().await, store.node().await);
    store.take(silent, 1).await;
    let lost = store.take(dead, 1).await;
    let held = db.hold(&format!("select {{schema}}.hold_node({silent})")).await;
    let node_heartbeats = store.node_heartbeats().await.unwrap();
    let declared = timeout(SOON, store.declare_dead(&node_heartbeats)).await.expect("it waited").unwrap();
    assert_eq!(declared.len(), 2);
    assert_eq!(store.release_all_lost().await, (2, 0));
    assert_eq!(store.state(lost[0].id).await, Some(JobState::Waiting));
    let left = store.node_heartbeats().await.unwrap();
    assert!(left.len() == 1 && left[0].node == silent, "{left:?}");
    held.release().await;
    assert_eq!(store.release_all_lost().await, (0, 0));
    assert_eq!(store.node_heartbeats().await.unwrap(), []);
}

/// A locked row of a dead node makes nothing else wait.
pub(crate) async fn declarations_pass_over_rows<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let (hidden_one, free) = (store.node().await, store.node().await);
    let held = db.hold(&format!("select from {{schema}}.node where id = {hidden_one} for update")).await;
    let node_heartbeats = store.node_heartbeats().await.unwrap();
    assert_eq!(timeout(SOON, store.declare_dead(&node_heartbeats)).await.expect("it waited").unwrap(), [free]);
    held.release().await;
    assert_eq!(store.declare_dead(&node_heartbeats).await.unwrap(), [hidden_one]);
}

/// Overlapping commits share the lock of their node without a multixact: at a thousand a second, multixact ids would be used up in days.
pub(crate) async fn commits_make_no_multixacts<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut transaction = db.store().begin().await.unwrap();
        let message = messages([job()]);
        let inserted = transaction.insert(&message, Some(&preclaim(node, &message))).await.unwrap();
        assert_eq!(inserted.owned.len(), 1);
        open.push(transaction);
    }
    let locked = format!("select xmax::text from {}.node where id = $1", db.schema());
    let client = db.client().await;
    assert_eq!(client.query_one(&locked, &[&node.0]).await.unwrap().get::<_, String>(0), "0", "its row is not locked");
    for transaction in open {
        transaction.commit().await.unwrap();
    }
}

/// A transaction with an old snapshot can't see that its node died meanwhile, so its rows are not preclaimed but wait.
pub(crate) async fn an_old_snapshot_owns_nothing<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let mut transaction = db.store().begin().await.unwrap();
    transaction.batch_execute("set transaction isolation level repeatable read; select 1").await.unwrap();
    db.bury(node).await;
    store.release_all_lost().await;
    let message = messages([job()]);
    assert_eq!(transaction.insert(&message, Some(&preclaim(node, &message))).await.unwrap().owned, []);
    transaction.commit().await.unwrap();
    assert_eq!(store.state(message[0].id).await, Some(JobState::Waiting));
}

/// The lock is bounded: the server ends a transaction that preclaims jobs and then falls silent.
pub(crate) async fn a_commit_that_hands_over_is_bounded<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let limit = async |owner: Option<NodeId>| {
        let mut transaction = db.store().begin().await.unwrap();
        let message = messages([job()]);
        let owned = owner.map(|node| preclaim(node, &message));
        transaction.insert(&message, owned.as_ref()).await.unwrap();
        let row = transaction.query_typed("show idle_in_transaction_session_timeout", &[]).await.unwrap();
        transaction.rollback().await.unwrap();
        row[0].get::<_, String>(0)
    };
    let own = limit(None).await;
    assert_eq!(limit(Some(node)).await, "15s");
    assert_eq!(limit(None).await, own, "of other transactions nothing is changed");
}

/// Two first sends of one id go to different tables, one of them in a transaction that is still open: they are one job.
pub(crate) async fn first_sends_of_an_id_meet<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let id = JobId::new();
    for (first, second) in [(job().id(id).delay(LATER), job().id(id)), (job().id(id), job().id(id).delay(LATER))] {
        let mut open = db.store().begin().await.unwrap();
        assert_eq!(open.insert(&messages([first]), None).await.unwrap().rows, 1);
        let sending = tokio::spawn({
            let store = store.clone();
            async move { store.insert(&messages([second]), None).await.unwrap().rows }
        });
        let client = db.client().await;
        let waiting = "select exists (select from pg_locks l join pg_stat_activity a using (pid)
                                      where not l.granted and a.query like '%' || $1 || '%')";
        eventually(SOON, async || {
            assert!(!sending.is_finished(), "it did not wait for the first");
            client.query_one(waiting, &[&db.schema()]).await.unwrap().get(0)
        })
        .await;
        open.commit().await.unwrap();
        assert_eq!(timeout(SOON, sending).await.expect("it waits for ever").unwrap(), 0);
        assert_eq!(store.all().await.len(), 1);
        db.clear().await;
    }
    // A send that is rolled back leaves the id to the other one.
    let mut open = db.store().begin().await.unwrap();
    open.insert(&messages([job().id(id).delay(LATER)]), None).await.unwrap();
    let sending = tokio::spawn(async move { store.insert(&messages([job().id(id)]), None).await.unwrap().rows });
    open.rollback().await.unwrap();
    assert_eq!(timeout(SOON, sending).await.expect("it waits for ever").unwrap(), 1);
}

/// Third-party SQL may put an id into two tables. That must block nothing: neither the job's own outcomes, nor others in the same batch.
pub(crate) async fn an_id_in_two_tables_blocks_nothing<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let copy = async |table: &str| {
        let (column, value) =
            if table == "timer_job" { (", due_at", ", now() + interval '1 h'") } else { (", reason", ", 'copied'") };
        db.raw(&format!(
            "insert into {{schema}}.{table} (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload{column})
             select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload{value} from {{schema}}.job
             where rank = -7"
        ))
        .await;
    };
    for (table, verdict) in [("timer_job", Verdict::Retry(LATER)), ("dead_letter_job", Verdict::Dead)] {
        store.send_all(jobs(3).into_iter().chain([job().priority(7)])).await;
        let node = store.node().await;
        let claimed = store.take(node, 4).await;
        copy(table).await;
        let outcomes: Vec<Settlement> =
            claimed.iter().map(|job| Settlement::new(job.fence(), verdict.clone()).error("no", None)).collect();
        assert_eq!(store.settle(node, &outcomes).await.unwrap().len(), 4);
        assert_eq!(store.all().await.len(), 4, "the row that was there stands for it");
        db.clear().await;
    }
    // The job's owner dies during its last attempt.
    store.send_all(jobs(3).into_iter().chain([job().priority(7).max_attempts(1)])).await;
    let node = store.node().await;
    store.take(node, 4).await;
    copy("dead_letter_job").await;
    db.bury(node).await;
    assert_eq!(store.release_all_lost().await, (3, 1));
    assert_eq!(store.count(JobState::Waiting).await, 3);
    // The job is moved by hand.
    let id = store.send(job().priority(7).id(JobId::new())).await;
    copy("timer_job").await;
    let only = JobFilter::default().with_ids(vec![id]);
    store.retry(&only, false).await.unwrap();
    assert_eq!(store.all().await.iter().filter(|row| row.id == id).count(), 1);
}

pub(crate) async fn deliveries_pass_over_them<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let sent = store.send_all(jobs(3)).await;
    let node = store.node().await;
    let held = db.hold(&format!("select from {{schema}}.job where id = '{}' for update", sent[1])).await;
    let fences: Vec<Fence> = sent.iter().map(|id| Fence::new(*id, 0)).collect();
    let taken = timeout(SOON, store.claim_delivered(node, claim_number(), &fences, None))
        .await
        .expect("the claim waited")
        .unwrap();
    assert_eq!(ids(&taken), [sent[0], sent[2]]);
    let unheld = timeout(SOON, store.unhide(&[sent[1]])).await.expect("unhide waited").unwrap();
    assert_eq!(unheld.len(), 0);
    held.release().await;
}

pub(crate) async fn hand_outs_pass_over_them<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let sent = store.send_all(jobs(4)).await;
    let held = db.hold(&format!("select from {{schema}}.job where id = '{}' for update", sent[0])).await;
    let out = timeout(SOON, store.hand_out("default", 2, Duration::ZERO, hand_out_number()))
        .await
        .expect("the hand-out waited")
        .unwrap();
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

/// A claim that its process has given up may still be in flight on the server when the node stops. The rows it takes must not keep an owner that does
/// not exist.
pub(crate) async fn a_retiring_node_waits_for_its_claims<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let id = store.send_all(jobs(1)).await[0];
    let node = store.node().await;
    let claim = db
        .hold(&format!(
            "select {{schema}}.hold_node({node});
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

/// An operator who declares a node dead does not wait. Jobs that its claims in flight take are released after their commit, and the node is not
/// forgotten before.
pub(crate) async fn an_evicted_node_is_not_waited_for<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let id = store.send_all(jobs(1)).await[0];
    let node = store.node().await;
    let claim = db
        .hold(&format!(
            "select {{schema}}.hold_node({node});
             update {{schema}}.job set lock_owner = {node}, version = version + 1, attempt = attempt + 1,
                                       claimed_at = clock_timestamp()"
        ))
        .await;
    let evicted = timeout(SOON, store.evict(node, Some("ann"))).await.expect("it waited").unwrap();
    assert_eq!(evicted.map(Released::total), Some(0));
    claim.commit().await;
    assert_eq!(store.state(id).await, Some(JobState::Running));
    assert_eq!(store.release_all_lost().await, (1, 0));
    let row = store.detail(id).await;
    assert_eq!((row.summary.state, row.summary.attempt), (JobState::Waiting, 1));
    assert!(row.errors[0].error.contains("declared dead by hand"), "{:?}", row.errors);
    assert!(store.status().await.unwrap().nodes.is_empty());
    assert_eq!(store.take(node, 1).await.len(), 0, "a claim that comes later takes nothing");
}

/// A process that stops does not wait forever either: rows locked by a silent transaction are left to the monitors.
pub(crate) async fn a_silent_transaction_keeps_no_node_from_retiring<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    let held = db.hold(&format!("select {{schema}}.hold_node({node})")).await;
    let call_timeout = DatabaseConfig::url("").call_timeout;
    let released = timeout(call_timeout * 3, store.retire_node(node)).await.expect("it waits for ever").unwrap();
    assert_eq!(released, 1, "what it owns is given back whatever is held");
    assert_eq!(store.state(claimed.id).await, Some(JobState::Waiting));
    assert!(store.heartbeat_of(node).await.dead);
    held.release().await;
    // The wait that was given up may still be queued at the server, and then gets the lock briefly.
    eventually(SOON, async || {
        store.release_all_lost().await;
        store.node_heartbeats().await.unwrap().is_empty()
    })
    .await;
}

/// An admission pass is about to block a job on a key while a rule unblocks it: they take turns, or the job would wait forever.
pub(crate) async fn a_rule_waits_for_a_pass_under_way<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    store.put_rule(&Rule::new(Scope::Kind, "kind").paused(true)).await.unwrap();
    let id = store.send(job()).await;
    let round = db
        .hold(
            "select from {schema}.admission for update;
             update {schema}.job set blocked_on = 'k:kind', share = ''",
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

/// A pass has read a job as the first of its group, and removed what unblocked the group for it, when another transaction removes the job. The
/// group is free for the next one.
pub(crate) async fn a_job_that_goes_while_a_pass_admits_it_keeps_no_group<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let sent = store.send_all(jobs(2).into_iter().map(|job| job.exclusive("g"))).await;
    let removal = db.hold(&format!("delete from {{schema}}.job where id = '{}'", sent[0])).await;
    let pass = tokio::spawn({
        let store = store.clone();
        async move { store.admit_all().await }
    });
    eventually(SOON, async || pass.is_finished() || removal.waiting().await > 0).await;
    removal.commit().await;
    let mut admitted = timeout(SOON, pass).await.expect("it waits for ever").unwrap();
    // A pass that gave up waiting for the job looks at its group again after a second.
    eventually(SOON, async || {
        admitted += store.admit_all().await;
        admitted > 0
    })
    .await;
    let node = store.node().await;
    assert_eq!(store.take_one(node).await.id, sent[1]);
}
