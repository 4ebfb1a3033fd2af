//! Rows of third-party SQL that can't be read as jobs: each becomes a dead letter, and its queue goes on.

use jobwright::Store as _;
use jobwright::admin::{HistoryFilter, HistoryOutcome, JobFilter, JobState, Rule, Scope};
use jobwright::internal::Action;
use jobwright::internal::engine::OperatorOptions;
use jobwright::{JobId, Keep, NewJob};

use crate::support::jobs::{LATER, claim_number, hand_out_number, ids, job, jobs, set};
use crate::support::{Jobs, SqlDb};

/// Sends five jobs, of which the second and the fourth can't be read.
async fn spoiled<T: SqlDb>(db: &T) -> Vec<JobId> {
    let sent = db.jobs().send_all(jobs(5)).await;
    for n in [1, 3] {
        db.spoil(sent[n]).await;
    }
    sent
}

/// Asserts that the good ones were taken, best first; the others are dead letters that say why, and have spent the attempt that a claim costs.
async fn sorted_out(store: &Jobs, sent: &[JobId], taken: &[jobwright::Job]) {
    assert_eq!(ids(taken), [sent[0], sent[2], sent[4]]);
    assert!(taken.iter().all(|job| job.attempt == 1));
    for n in [1, 3] {
        let detail = store.detail(sent[n]).await;
        assert_eq!((detail.summary.state, detail.summary.attempt), (JobState::Dead, 1));
        let (_, reason) = detail.dead.unwrap();
        assert!(reason.starts_with("can't be read: "), "{reason}");
        assert_eq!((detail.errors.len(), detail.errors[0].attempt, &detail.errors[0].error), (1, 1, &reason));
    }
    assert_eq!((store.all().await.len(), store.count(JobState::Dead).await), (5, 2));
}

pub(crate) async fn met_by_a_claim<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let sent = spoiled(db).await;
    let taken = store.take(node, 10).await;
    sorted_out(&store, &sent, &taken).await;
    for job in &taken {
        store.finish(node, job).await;
    }
    assert_eq!(store.take(node, 10).await.len(), 0);
}

/// This holds even if the unreadable job is the only one that matches.
pub(crate) async fn met_one_at_a_time<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let sent = spoiled(db).await;
    let mut taken = Vec::new();
    for _ in 0..sent.len() {
        taken.extend(store.take(node, 1).await);
    }
    sorted_out(&store, &sent, &taken).await;
}

pub(crate) async fn met_by_a_delivery<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let sent = spoiled(db).await;
    let deliveries: Vec<_> = sent.iter().map(|id| jobwright::internal::Fence::new(*id, 0)).collect();
    let taken = store.claim_delivered(node, claim_number(), &deliveries, None).await.unwrap();
    sorted_out(&store, &sent, &taken).await;
}

pub(crate) async fn met_by_a_hand_out<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let sent = spoiled(db).await;
    let taken = store.hand_out("default", 10, LATER, hand_out_number()).await.unwrap();
    sorted_out(&store, &sent, &taken).await;
    assert_eq!(store.count(JobState::External).await, 3);
}

/// Its group goes on when it is dead-lettered, and so do others.
pub(crate) async fn met_by_an_admission<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.put_rule(&Rule::new(Scope::Queue, "default").running(10)).await.unwrap();
    let group = store.send_all(jobs(2).into_iter().map(|job| job.exclusive("group"))).await;
    let limited = store.send_all(jobs(3)).await;
    for id in [group[0], limited[0]] {
        db.spoil(id).await;
    }
    store.admit_all().await;
    assert_eq!(ids(&store.take(node, 10).await), limited[1..]);
    store.admit_all().await;
    assert_eq!(ids(&store.take(node, 10).await), group[1..]);
    for id in [group[0], limited[0]] {
        assert_eq!(store.state(id).await, Some(JobState::Dead));
    }
    assert_eq!(store.permit_faults().await.unwrap(), Vec::<String>::new());
}

/// Not only a value of a wrong type.
pub(crate) async fn options_of_any_shape<T: SqlDb>(db: &T) {
    db.let_anything_in().await;
    let store = db.jobs();
    let node = store.node().await;
    for options in
        ["[]", "5", "\"x\"", r#"{"tenant": 5}"#, r#"{"group": []}"#, r#"{"unique": "x"}"#, r#"{"ttl": "long"}"#]
    {
        let sent = store.send_all(["kind", "odd", "kind"].map(|kind| NewJob::json(kind, &1))).await;
        db.change(&format!("update {{}}job set options = '{options}' where kind = 'odd'")).await;
        assert_eq!(ids(&store.take(node, 10).await), [sent[0], sent[2]], "{options}");
        assert_eq!(store.state(sent[1]).await, Some(JobState::Dead), "{options}");
    }
}

/// It is requeued like any dead letter, and dead-lettered again.
pub(crate) async fn run_again_is_buried_again<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let sent = spoiled(db).await;
    assert_eq!(store.take(node, 10).await.len(), 3);
    let retry = Action::Retry { limit: None, spread: std::time::Duration::ZERO };
    let again = store.operate(&JobFilter::default(), &retry, OperatorOptions::default()).await.unwrap();
    assert_eq!(again.total(), 2);
    let good = store.send(job()).await;
    assert_eq!(ids(&store.take(node, 10).await), [good]);
    for n in [1, 3] {
        let detail = store.detail(sent[n]).await;
        assert_eq!((detail.summary.state, detail.summary.attempt, detail.errors.len()), (JobState::Dead, 1, 2));
    }
}

pub(crate) async fn remembered_as_any_dead_letter<T: SqlDb>(db: &T) {
    let store = Jobs(db.remembering(Keep::Failed).await.engine());
    let node = store.node().await;
    let sent = spoiled(db).await;
    assert_eq!(store.take(node, 10).await.len(), 3);
    let entries = store.history(&HistoryFilter::default(), 10).await.unwrap();
    assert_eq!(set(entries.iter().map(|entry| entry.id)), set([sent[1], sent[3]]));
    assert!(entries.len() == 2 && entries.iter().all(|entry| entry.outcome == HistoryOutcome::Dead), "{entries:?}");
}

/// A claim that meets more of them than it may take goes on to the ones behind them: the queue is not empty.
pub(crate) async fn many_do_not_make_a_queue_look_empty<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.send_all((0..60).map(|_| NewJob::json("odd", &1))).await;
    let good = store.send(job()).await;
    db.change("update {}job set options = '{\"tenant\": 5}' where kind = 'odd'").await;
    let taken = store.take(node, 5).await;
    assert_eq!(ids(&taken), [good]);
    assert_eq!(store.count(JobState::Dead).await, 60);
}
