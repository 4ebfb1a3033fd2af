//! `claim_delivered`: rows that a broker's message names.

use jobwright::admin::JobState;
use jobwright::internal::Fence;
use jobwright::internal::engine::Verdict;
use jobwright::{JobId, NewJob};
use tokio::task::JoinSet;

use crate::conformance::hidden_rows::{held, send};
use crate::support::jobs::{LATER, NOBODY, claim_number, fences, hand_out_number, ids, job, jobs, set};
use crate::support::{Jobs, TestDb};

/// Returns the fences that a delivery of new rows names.
fn fresh(ids: &[JobId]) -> Vec<Fence> {
    ids.iter().map(|id| Fence::new(*id, 0)).collect()
}

pub(crate) async fn a_delivery_claims_the_rows_it_names<T: TestDb>(db: &T) {
    let store = db.jobs();
    let mut sent = store.send_all([job(), job().queue("b").priority(4).header("tenant", "acme"), job()]).await;
    let node = store.node().await;
    let claim = claim_number();
    let taken = store.claim_delivered(node, claim, &fresh(&sent[..2]), None).await.unwrap();
    assert_eq!(ids(&taken), [sent[1], sent[0]], "best first");
    assert_eq!((taken[0].queue.as_str(), taken[0].priority, taken[0].headers["tenant"].as_str()), ("b", 4, "acme"));
    assert_eq!((taken[0].version, taken[0].attempt, taken[1].queue.as_str()), (claim.get(), 1, "default"));
    assert_eq!(taken[0].payload.decode::<serde_json::Value>().unwrap()["n"], 1);
    let summary = store.detail(sent[0]).await.summary;
    assert_eq!((summary.state, summary.owner), (JobState::Running, Some(node)));
    assert_eq!(set(store.complete(node, &fences(&taken)).await.unwrap()), set(sent.drain(..2)));
    assert_eq!(store.state(sent[0]).await, Some(JobState::Waiting), "what was not named waits");
}

pub(crate) async fn hidden_or_not<T: TestDb>(db: &T) {
    let store = db.jobs();
    let mut sent = send(&store, &[held(job())]).await;
    sent.push(store.send(job()).await);
    let node = store.node().await;
    let taken = store.claim_delivered(node, claim_number(), &fresh(&sent), None).await.unwrap();
    assert_eq!(ids(&taken), sent);
    // The row is no longer hidden when it waits again.
    assert!(store.settle_one(node, taken[0].fence(), Verdict::Release).await);
    assert_eq!(ids(&store.take(node, 1).await), [sent[0]]);
}

pub(crate) async fn only_in_the_version_it_names<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    assert!(store.settle_one(node, claimed.fence(), Verdict::Release).await);
    for version in [0, claimed.version + 1, -1] {
        let late = Fence::new(claimed.id, version);
        assert_eq!(
            store.claim_delivered(node, claim_number(), &[late], None).await.unwrap().len(),
            0,
            "version {version}"
        );
    }
    let again = store.claim_delivered(node, claim_number(), &[claimed.fence()], None).await.unwrap();
    assert_eq!((again[0].id, again[0].attempt), (claimed.id, 1));
    assert_ne!(again[0].version, claimed.version);
}

pub(crate) async fn only_given_kinds<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = store.send_all(["a", "b", "c"].map(|kind| NewJob::json(kind, &1))).await;
    let node = store.node().await;
    let take = async |kinds: &[&str]| {
        let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        ids(&store.claim_delivered(node, claim_number(), &fresh(&sent), Some(&kinds)).await.unwrap())
    };
    assert_eq!(take(&[]).await, []);
    assert_eq!(take(&["A", "x"]).await, []);
    assert_eq!(take(&["c", "a"]).await, [sent[0], sent[2]]);
    assert_eq!(store.state(sent[1]).await, Some(JobState::Waiting));
}

pub(crate) async fn only_by_the_living<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = store.send(job()).await;
    let dead = store.node().await;
    // It owns a job, or it would be forgotten.
    store.send_owned(job().queue("other"), dead).await;
    db.bury(dead).await;
    for node in [dead, NOBODY] {
        let claimed = store.claim_delivered(node, claim_number(), &fresh(&[sent]), None).await;
        assert!(claimed.is_err() || claimed.unwrap().is_empty());
    }
    assert_eq!(store.detail(sent).await.version, 0);
}

pub(crate) async fn only_waiting_jobs_are_taken<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, running) = store.running(job()).await;
    let timer = store.send(job().delay(LATER)).await;
    let suspended = store.send(job()).await;
    db.suspend(suspended).await;
    let external = store.send(job()).await;
    let out = store.hand_out("default", 1, LATER, hand_out_number()).await.unwrap();
    assert_eq!(ids(&out), [external]);
    let mut deliveries = fresh(&[running.id, timer, suspended, external, JobId::new()]);
    deliveries.push(running.fence());
    deliveries.push(out[0].fence());
    assert_eq!(store.claim_delivered(node, claim_number(), &deliveries, None).await.unwrap().len(), 0);
}

pub(crate) async fn the_same_row_twice_in_a_batch<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = store.send_all(jobs(2)).await;
    let node = store.node().await;
    let taken = store.claim_delivered(node, claim_number(), &fresh(&[sent[0], sent[1], sent[0]]), None).await.unwrap();
    assert_eq!(ids(&taken), sent);
    assert!(taken.iter().all(|job| job.version == taken[0].version && job.attempt == 1));
}

/// An old redelivery comes together with the current delivery, in either order.
pub(crate) async fn old_and_new_deliveries_in_a_batch<T: TestDb>(db: &T) {
    let store = db.jobs();
    for old_first in [true, false] {
        let (node, claimed) = store.running(job()).await;
        assert!(store.settle_one(node, claimed.fence(), Verdict::Release).await);
        let mut deliveries = [Fence::new(claimed.id, 0), claimed.fence()];
        if !old_first {
            deliveries.reverse();
        }
        let claim = claim_number();
        let taken = store.claim_delivered(node, claim, &deliveries, None).await.unwrap();
        assert_eq!((taken.len(), taken[0].version), (1, claim.get()));
    }
}

/// Both nodes get all deliveries, and each row gets one owner.
pub(crate) async fn two_nodes_share_without_overlap<T: TestDb>(db: &T) {
    use jobwright::Store;
    let handles = [db.jobs(), Jobs(db.reopen().await.engine())];
    let sent = handles[0].send_all(jobs(200)).await;
    let mut tasks = JoinSet::new();
    for n in 0..4 {
        let store = handles[n % 2].clone();
        let mut order = sent.clone();
        order.rotate_left(n * 37);
        if n % 2 == 1 {
            order.reverse();
        }
        tasks.spawn(async move {
            let node = store.node().await;
            let mut taken = Vec::new();
            for batch in order.chunks(30) {
                taken.extend(ids(&store.claim_delivered(node, claim_number(), &fresh(batch), None).await.unwrap()));
            }
            taken
        });
    }
    let taken = tasks.join_all().await.concat();
    assert_eq!(taken.len(), set(taken.clone()).len(), "none twice");
    // A row that two batches claim at once is passed over by one and taken by the other.
    assert_eq!(set(taken), set(sent));
}

pub(crate) async fn five_hundred_at_once<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = store.send_all(jobs(500)).await;
    let node = store.node().await;
    assert_eq!(ids(&store.claim_delivered(node, claim_number(), &fresh(&sent), None).await.unwrap()), sent);
}

pub(crate) async fn nothing_named_nothing_taken<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send(job()).await;
    let node = store.node().await;
    assert_eq!(store.claim_delivered(node, claim_number(), &[], None).await.unwrap().len(), 0);
}
