//! Fencing tokens are drawn by the claimer: they fit no other claim, even when the database has forgotten the claim.

use std::time::Duration;

use jobwright::JobId;
use jobwright::admin::{JobFilter, JobState};
use jobwright::internal::engine::{ClaimRequest, ExternalDone, Preclaim, ScanRange, Settlement, Verdict};
use jobwright::internal::{ClaimNumber, Fence, HandOutNumber};

use crate::conformance::fencing::all_refused;
use crate::support::TestDb;
use crate::support::jobs::{LATER, claim_number, job, message};

/// A job is cancelled while it runs and sent again: a late outcome of the first does not apply to the second, though the same node runs both.
pub(crate) async fn of_an_id_that_is_used_again<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let id = store.send(job().id(JobId::new())).await;
    let first = store.take_one(node).await;
    store.cancel(&JobFilter::ids([id]), false).await.unwrap();
    assert_eq!(store.send(job().id(id)).await, id);
    let second = store.take_one(node).await;
    assert_eq!((second.id, second.attempt), (first.id, first.attempt));
    all_refused(&store, node, first.fence(), "of the job before").await;
    assert_eq!(store.stale_claims(node, &[first.fence(), second.fence()]).await.unwrap(), [first.fence()]);
    assert_eq!(store.complete(node, &[second.fence()]).await.unwrap(), [id]);
}

pub(crate) async fn a_stale_fence_of_a_preclaimed_id_that_was_sent_again_is_refused<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let id = JobId::new();
    let first = store.send_owned(job().id(id), node).await;
    store.cancel(&JobFilter::ids([id]), false).await.unwrap();
    let second = store.send_owned(job().id(id), node).await;
    all_refused(&store, node, first, "of the job before").await;
    assert_eq!(store.complete(node, &[second]).await.unwrap(), [id]);

    let claim = claim_number();
    let fresh = message(job());
    store.insert(std::slice::from_ref(&fresh), Some(&Preclaim { node, claim, ids: [fresh.id].into() })).await.unwrap();
    assert_eq!(store.detail(fresh.id).await.version, claim.get(), "the claimer's own number");
}

/// A failover that lost the last commits, or a restore, puts a row back to its state before the claim.
pub(crate) async fn of_a_row_that_was_put_back<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, first) = store.running(job()).await;
    assert!(store.settle_one(node, first.fence(), Verdict::Release).await);
    db.set_counters(first.id, 0, 0).await;
    let second = store.take_one(node).await;
    assert_eq!((second.id, second.attempt), (first.id, 1));
    all_refused(&store, node, first.fence(), "of the claim that the database forgot").await;
    assert_eq!(store.complete(node, &[second.fence()]).await.unwrap(), [first.id]);
}

pub(crate) async fn of_a_job_that_is_handed_out_again<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job().id(JobId::new())).await;
    let first = store.hand_out("default", 1, LATER, HandOutNumber::random()).await.unwrap().remove(0).fence();
    store.cancel(&JobFilter::ids([id]), false).await.unwrap();
    store.send(job().id(id)).await;
    let second = store.hand_out("default", 1, LATER, HandOutNumber::random()).await.unwrap().remove(0).fence();
    let done = |fence| [ExternalDone { fence, result: None }];
    assert_eq!(store.complete_external(&done(first)).await.unwrap().ids, []);
    assert_eq!(store.state(id).await, Some(JobState::External));
    assert_eq!(store.complete_external(&done(second)).await.unwrap().ids, [id]);
}

/// The token of a hand-out has 53 bits, that of a claim 31: jobs that come back from external workers are claimed like all others.
pub(crate) async fn a_long_one_does_not_stay_with_the_row<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let token = HandOutNumber::new((1 << 53) - 2);
    assert_eq!(token.get(), (1 << 53) - 1);
    let out = async |lease| {
        let id = store.send(job().max_attempts(3)).await;
        let handed = store.hand_out("default", 1, lease, token).await.unwrap();
        assert_eq!((handed[0].id, handed[0].version), (id, token.get()));
        handed[0].fence()
    };
    let back = out(LATER).await;
    assert_eq!(store.take_back(&[back]).await.unwrap(), 1);
    assert_eq!(store.claim_delivered(node, claim_number(), &[Fence::new(back.id, 0)], None).await.unwrap().len(), 0);
    assert_eq!(store.take_one(node).await.id, back.id);

    let failed = out(LATER).await;
    let retry = Settlement::new(failed, Verdict::Retry(Duration::ZERO));
    assert_eq!(store.settle_external(&[retry]).await.unwrap(), [failed.id]);
    assert_eq!(store.promote().await, 1);
    assert_eq!(store.take_one(node).await.id, failed.id);

    let dead = out(LATER).await;
    assert_eq!(store.settle_external(&[Settlement::new(dead, Verdict::Dead)]).await.unwrap(), [dead.id]);
    store.retry(&JobFilter::ids([dead.id]), false).await.unwrap();
    assert_eq!(store.take_one(node).await.id, dead.id);

    let late = out(Duration::ZERO).await;
    assert_eq!(store.expire_external(10).await.unwrap().waiting, 1);
    assert_eq!(store.take_one(node).await.id, late.id);
}

/// Tokens wrap around: after the last number comes the first.
pub(crate) async fn the_last_one_is_as_good<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let last = i32::MAX.unsigned_abs() - 1;
    for (claim, number) in [(ClaimNumber::new(last), i64::from(i32::MAX)), (ClaimNumber::new(last + 1), 1)] {
        let id = store.send(job()).await;
        let range = ScanRange::All;
        let request = ClaimRequest::new(node, claim, "default", 1).range(range);
        let claimed = store.claim(&request).await.unwrap().jobs.remove(0);
        assert_eq!((claimed.id, claimed.version), (id, number));
        assert_eq!(store.complete(node, &[claimed.fence()]).await.unwrap(), [id]);
    }
}
