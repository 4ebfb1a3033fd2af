//! An outcome is accepted from the current claim alone, whatever the outcome and however the claim was lost.

use std::time::Duration;

use jobwright::admin::JobFilter;
use jobwright::internal::Fence;
use jobwright::internal::engine::{Settlement, Verdict};
use jobwright::{JobId, NodeId};

use crate::support::jobs::{LATER, NOBODY, claim_number, fences, job, jobs, message, preclaim, set, with_version};
use crate::support::{Jobs, TestDb};

/// Every way to end an attempt.
#[derive(Clone, Copy, Debug)]
enum OutcomeKind {
    Complete,
    Settle(fn() -> Verdict),
}

const ENDINGS: [OutcomeKind; 7] = [
    OutcomeKind::Complete,
    OutcomeKind::Settle(|| Verdict::Retry(Duration::ZERO)),
    OutcomeKind::Settle(|| Verdict::Retry(LATER)),
    OutcomeKind::Settle(|| Verdict::Snooze(LATER)),
    OutcomeKind::Settle(|| Verdict::Release),
    OutcomeKind::Settle(|| Verdict::Cancel),
    OutcomeKind::Settle(|| Verdict::Dead),
];

impl OutcomeKind {
    /// Returns whether the outcome was accepted.
    async fn apply(self, store: &Jobs, node: NodeId, fence: Fence) -> bool {
        match self {
            Self::Complete => {
                let accepted = store.complete(node, &[fence]).await.unwrap();
                assert!(accepted.is_empty() || accepted == [fence.id]);
                !accepted.is_empty()
            }
            Self::Settle(verdict) => {
                store.settle_with(node, Settlement::new(fence, verdict()).error("late", None)).await
            }
        }
    }
}

/// Asserts that no outcome is accepted, and that none changes anything.
pub(crate) async fn all_refused(store: &Jobs, node: NodeId, fence: Fence, why: &str) {
    let before = format!("{:?} {:?}", store.all().await, store.show(fence.id).await.unwrap());
    for terminating_handler in ENDINGS {
        assert!(!terminating_handler.apply(store, node, fence).await, "{why}: {terminating_handler:?} was accepted");
    }
    let after = format!("{:?} {:?}", store.all().await, store.show(fence.id).await.unwrap());
    assert_eq!(after, before, "{why}: a refused outcome changed something");
}

pub(crate) async fn each_outcome_is_accepted_once<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    for terminating_handler in ENDINGS {
        store.send(job().max_attempts(3)).await;
        let claimed = store.take_one(node).await;
        assert!(terminating_handler.apply(&store, node, claimed.fence()).await, "{terminating_handler:?}");
        all_refused(&store, node, claimed.fence(), "repeated").await;
        store.delete(&JobFilter::default(), false).await.unwrap();
    }
}

pub(crate) async fn not_from_another_node<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    let other = store.node().await;
    all_refused(&store, other, claimed.fence(), "another node").await;
    all_refused(&store, NOBODY, claimed.fence(), "an unknown node").await;
    assert_eq!(store.complete(node, &[claimed.fence()]).await.unwrap(), [claimed.id]);
}

pub(crate) async fn not_with_another_version<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    for version in [claimed.version - 1, claimed.version + 1, -1, i64::MAX] {
        all_refused(&store, node, with_version(claimed.fence(), version), "another version").await;
    }
    let stranger = Fence::new(JobId::new(), claimed.version);
    all_refused(&store, node, stranger, "another job").await;
}

/// The row's location is a hint: rows move, and other rows take their places.
pub(crate) async fn wherever_the_row_is<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(4)).await;
    let node = store.node().await;
    let claimed = store.take(node, 4).await;
    let fence = |n: usize| claimed[n].fence();
    // Two rows have moved; for two others each fence names the other's location.
    for job in &claimed[..2] {
        db.set_counters(job.id, job.version, job.attempt).await;
    }
    let mut swapped = [fence(2), fence(3)];
    (swapped[0].location, swapped[1].location) = (swapped[1].location, swapped[0].location);
    let mut accepted = store.complete(node, &[fence(0), swapped[0]]).await.unwrap();
    accepted.sort_unstable();
    assert_eq!(accepted, [claimed[0].id, claimed[2].id]);
    assert_eq!(store.complete(node, &[swapped[0]]).await.unwrap(), [], "its place is the other's");
    let stale = with_version(fence(3), fence(3).version + 1);
    let mut accepted = store.complete(node, &[swapped[1], stale, fence(1)]).await.unwrap();
    accepted.sort_unstable();
    assert_eq!(accepted, [claimed[1].id, claimed[3].id]);
    assert_eq!(store.all().await.len(), 0);
}

pub(crate) async fn not_before_a_claim<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    for (id, state) in [(store.send(job()).await, "waiting"), (store.send(job().delay(LATER)).await, "a timer")] {
        for version in [0, 1] {
            all_refused(&store, node, Fence::new(id, version), state).await;
        }
    }
}

pub(crate) async fn not_after_release<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    assert!(store.settle_one(node, claimed.fence(), Verdict::Release).await);
    all_refused(&store, node, claimed.fence(), "released").await;
    // The same node may claim it again: only the version distinguishes the claims.
    let again = store.take_one(node).await;
    assert!(again.version > claimed.version);
    all_refused(&store, node, claimed.fence(), "claimed again by the same node").await;
    assert_eq!(store.complete(node, &[again.fence()]).await.unwrap(), [again.id]);
    all_refused(&store, node, again.fence(), "finished").await;
}

pub(crate) async fn not_after_the_node_was_lost<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (zombie, claimed) = store.running(job()).await;
    db.bury(zombie).await;
    assert_eq!(store.release_all_lost().await, (1, 0));
    all_refused(&store, zombie, claimed.fence(), "released by the monitor").await;
    let node = store.node().await;
    let again = store.take_one(node).await;
    all_refused(&store, zombie, claimed.fence(), "claimed by another node").await;
    all_refused(&store, zombie, again.fence(), "with a token it never got").await;
    assert_eq!(store.complete(node, &[again.fence()]).await.unwrap(), [again.id]);
}

pub(crate) async fn not_after_it_became_a_dead_letter<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (zombie, claimed) = store.running(job().max_attempts(1)).await;
    db.bury(zombie).await;
    assert_eq!(store.release_all_lost().await, (0, 1));
    all_refused(&store, zombie, claimed.fence(), "a dead letter").await;
    // The attempts start again but the version goes on, so the old token stays worthless.
    store.retry(&JobFilter::default(), false).await.unwrap();
    let node = store.node().await;
    let again = store.take_one(node).await;
    assert_eq!(again.attempt, claimed.attempt);
    assert!(again.version > claimed.version);
    all_refused(&store, zombie, claimed.fence(), "retried").await;
}

pub(crate) async fn not_after_a_timer<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    store.fail(node, &claimed, Duration::ZERO, "error").await;
    all_refused(&store, node, claimed.fence(), "a timer").await;
    store.promote().await;
    all_refused(&store, node, claimed.fence(), "waiting again").await;
    store.take_one(node).await;
    all_refused(&store, node, claimed.fence(), "running again").await;
}

pub(crate) async fn not_after_cancel<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    store.cancel(&JobFilter::ids([claimed.id]), false).await.unwrap();
    all_refused(&store, node, claimed.fence(), "cancelled").await;
}

/// Sends and claims jobs and gives half of them back, so that a batch has current and stale fences.
async fn half_stale(store: &Jobs) -> (NodeId, Vec<Fence>, Vec<Fence>) {
    let node = store.node().await;
    store.send_all(jobs(10)).await;
    let claimed = fences(&store.take(node, 10).await);
    let (stale, good): (Vec<_>, Vec<_>) =
        claimed.iter().partition(|fence| claimed.iter().position(|f| f == *fence).unwrap() % 2 == 0);
    let release: Vec<_> = stale.iter().map(|fence| Settlement::new(*fence, Verdict::Release)).collect();
    assert_eq!(store.settle(node, &release).await.unwrap().len(), 5);
    // Some of the stale ones are owned by the same node again.
    store.take(node, 2).await;
    (node, claimed, good)
}

pub(crate) async fn a_batch_is_judged_one_by_one_when_complete<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, all, good) = half_stale(&store).await;
    let accepted = store.complete(node, &all).await.unwrap();
    assert_eq!(set(accepted.iter().copied()), set(good.iter().map(|fence| fence.id)));
    assert_eq!(accepted.len(), good.len(), "each once");
    assert_eq!(store.all().await.len(), 5);
}

pub(crate) async fn a_batch_is_judged_one_by_one_when_settled<T: TestDb>(db: &T) {
    let store = db.jobs();
    for terminating_handler in ENDINGS {
        let OutcomeKind::Settle(verdict) = terminating_handler else { continue };
        let (node, all, good) = half_stale(&store).await;
        let batch: Vec<_> = all.iter().map(|fence| Settlement::new(*fence, verdict())).collect();
        let accepted = store.settle(node, &batch).await.unwrap();
        assert_eq!(set(accepted.iter().copied()), set(good.iter().map(|fence| fence.id)), "{terminating_handler:?}");
        assert_eq!(accepted.len(), good.len(), "{terminating_handler:?}: each once");
        store.cancel(&JobFilter::default(), false).await.unwrap();
        store.delete(&JobFilter::default(), false).await.unwrap();
    }
}

/// A batch in which every settlement has a different verdict.
pub(crate) async fn a_batch_may_mix_verdicts<T: TestDb>(db: &T) {
    use jobwright::admin::JobState::{Dead, Timer, Waiting};
    let store = db.jobs();
    let node = store.node().await;
    store.send_all(jobs(6)).await;
    let claimed = store.take(node, 6).await;
    let verdicts = [
        (Verdict::Retry(LATER), Some(Timer)),
        (Verdict::Snooze(LATER), Some(Timer)),
        (Verdict::Release, Some(Waiting)),
        (Verdict::Cancel, None),
        (Verdict::Dead, Some(Dead)),
        (Verdict::Retry(Duration::ZERO), Some(Timer)),
    ];
    let batch: Vec<_> = claimed
        .iter()
        .zip(&verdicts)
        .map(|(job, (verdict, _))| Settlement::new(job.fence(), verdict.clone()))
        .collect();
    assert_eq!(set(store.settle(node, &batch).await.unwrap()), set(claimed.iter().map(|job| job.id)));
    for (job, (verdict, state)) in claimed.iter().zip(verdicts) {
        assert_eq!(store.state(job.id).await, state, "{verdict:?}");
    }
}

/// A completer that repeats a fence within a batch must not make two jobs of one.
pub(crate) async fn the_same_fence_twice_in_a_batch<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    for terminating_handler in ENDINGS {
        store.send(job()).await;
        let fence = store.take_one(node).await.fence();
        let accepted = match terminating_handler {
            OutcomeKind::Complete => store.complete(node, &[fence, fence]).await.unwrap(),
            OutcomeKind::Settle(verdict) => {
                let twice = [Settlement::new(fence, verdict()), Settlement::new(fence, verdict())];
                store.settle(node, &twice).await.unwrap()
            }
        };
        assert_eq!(set(accepted), set([fence.id]), "{terminating_handler:?}");
        assert!(store.all().await.len() <= 1, "{terminating_handler:?} made two jobs of one");
        store.delete(&JobFilter::default(), false).await.unwrap();
    }
}

pub(crate) async fn nothing_to_settle<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    assert_eq!(store.complete(node, &[]).await.unwrap(), []);
    assert_eq!(store.settle(node, &[]).await.unwrap(), []);
}

pub(crate) async fn a_thousand_at_once<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.send_all(jobs(2000)).await;
    let claimed = store.take(node, 2000).await;
    let (done, failed) = claimed.split_at(1000);
    assert_eq!(store.complete(node, &fences(done)).await.unwrap().len(), 1000);
    let batch: Vec<_> = failed
        .iter()
        .map(|job| Settlement::new(job.fence(), Verdict::Retry(Duration::ZERO)).error("error", Some("detail")))
        .collect();
    assert_eq!(store.settle(node, &batch).await.unwrap().len(), 1000);
    let promoted = store.promote_due(1000).await.unwrap();
    assert_eq!(promoted.jobs, 1000);
}

/// With a wrong location, or none, nothing would fail: removals would merely cost more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_tell_where_their_rows_are() {
    let Some(db) = crate::support::postgres::Pg::<false>::create().await else { return };
    let (store, client) = (db.jobs(), db.client().await);
    let node = store.node().await;
    let sent = store.send_all(jobs(3)).await;
    let delivered =
        store.claim_delivered(node, claim_number(), &[Fence::new(sent[2], 0)], None).await.unwrap().remove(0);
    let mut claimed: Vec<_> = store.take(node, 2).await.iter().map(|job| (job.id, job.location)).collect();
    claimed.push((delivered.id, delivered.location));
    let born = [message(job())];
    let born = store.insert(&born, Some(&preclaim(node, &born))).await.unwrap().owned.remove(0);
    claimed.push((born.id, born.location));
    for (id, location) in claimed {
        let location = location.get().expect("a place");
        let at = format!("({},{})", location >> 16, location & 0xffff);
        let sql = format!("select id from {}.job where ctid = '{at}'", db.schema());
        assert_eq!(JobId::from(client.query_one(&sql, &[]).await.unwrap().get::<_, uuid::Uuid>(0)), id);
    }
}
