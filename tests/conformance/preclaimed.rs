//! `insert` with a `Preclaim`: rows that are owned from the start.

use jobwright::JobId;
use jobwright::admin::JobState;
use jobwright::internal::Fence;
use jobwright::internal::engine::{OwnedInsert, Preclaim, Verdict};

use crate::support::TestDb;
use crate::support::jobs::{LATER, NOBODY, claim_number, fences, job, jobs, messages, preclaim, set};

pub(crate) async fn by_a_live_node<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let batch = messages(jobs(5));
    let claim = claim_number();
    let owned = Preclaim { claim, ..preclaim(node, batch.iter().step_by(2)) };
    let inserted = store.insert(&batch, Some(&owned)).await.unwrap();
    assert_eq!(inserted.rows, 5);
    assert_eq!(set(inserted.owned.iter().map(|row| row.id)), set([batch[0].id, batch[2].id, batch[4].id]));
    for OwnedInsert { id, seq, created_at, .. } in inserted.owned {
        let detail = store.detail(id).await;
        assert_eq!((detail.summary.seq, detail.summary.created_at), (seq, created_at));
        assert_eq!((detail.summary.state, detail.summary.owner), (JobState::Running, Some(node)));
        assert_eq!((detail.version, detail.summary.attempt), (claim.get(), 1));
        assert!(detail.summary.claimed_at.is_some());
    }
    for n in [1, 3] {
        assert_eq!(store.state(batch[n].id).await, Some(JobState::Waiting));
    }
    let other = store.node().await;
    let rest = store.take(other, 10).await;
    assert_eq!(set(rest.iter().map(|job| job.id)), set([batch[1].id, batch[3].id]));
}

pub(crate) async fn is_finished_like_any_claim<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let done = store.send_owned(job(), node).await;
    assert_eq!(store.complete(node, &[done]).await.unwrap(), [done.id]);
    assert_eq!(store.state(done.id).await, None);

    let failed = store.send_owned(job().max_attempts(1), node).await;
    assert!(store.settle_one(node, failed, Verdict::Retry(LATER)).await);
    assert_eq!(store.state(failed.id).await, Some(JobState::Dead), "its first attempt was spent");

    let released = store.send_owned(job(), node).await;
    assert!(store.settle_one(node, released, Verdict::Release).await);
    let again = store.take_one(node).await;
    assert_eq!((again.id, again.attempt), (released.id, 1));
    assert_ne!(again.version, released.version);
}

pub(crate) async fn by_a_dead_node_waits<T: TestDb>(db: &T) {
    let store = db.jobs();
    let dead = store.node().await;
    db.bury(dead).await;
    for node in [dead, NOBODY] {
        let batch = messages(jobs(2));
        let owned = preclaim(node, &batch);
        let inserted = store.insert(&batch, Some(&owned)).await.unwrap();
        assert_eq!((inserted.rows, inserted.owned), (2, vec![]));
        for message in batch {
            let detail = store.detail(message.id).await;
            assert_eq!((detail.summary.state, detail.summary.owner), (JobState::Waiting, None));
            assert_eq!((detail.version, detail.summary.attempt), (0, 0), "as if nothing had been asked");
        }
    }
}

pub(crate) async fn only_due_jobs_are_preclaimed<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let batch = messages([job(), job().delay(LATER), job().delay(std::time::Duration::ZERO)]);
    let owned = preclaim(node, &batch);
    let inserted = store.insert(&batch, Some(&owned)).await.unwrap();
    assert_eq!(inserted.rows, 3);
    assert_eq!(set(inserted.owned.iter().map(|row| row.id)), set([batch[0].id, batch[2].id]));
    let later = store.detail(batch[1].id).await;
    assert_eq!((later.summary.state, later.version, later.summary.attempt), (JobState::Timer, 0, 0));
}

pub(crate) async fn nothing_asked_nothing_owned<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let inserted = store.insert(&messages(jobs(3)), Some(&preclaim(node, []))).await.unwrap();
    assert_eq!((inserted.rows, inserted.owned), (3, vec![]));
    assert_eq!(store.count(JobState::Waiting).await, 3);
}

/// Owned rows are identified by their ids, not by position: some were skipped.
pub(crate) async fn beside_ids_that_exist<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let known = store.send(job()).await;
    let fresh = [JobId::new(), JobId::new()];
    let batch = messages([job().id(known), job().id(fresh[0]), job().id(fresh[1])]);
    let owned = preclaim(node, [&batch[0], &batch[2]]);
    let inserted = store.insert(&batch, Some(&owned)).await.unwrap();
    assert_eq!(inserted.rows, 2);
    assert_eq!(set(inserted.owned.iter().map(|row| row.id)), set([fresh[1]]));
    assert_eq!(store.state(known).await, Some(JobState::Waiting));
    assert_eq!(store.state(fresh[0]).await, Some(JobState::Waiting));
    assert_eq!(store.state(fresh[1]).await, Some(JobState::Running));
}

pub(crate) async fn many<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let batch = messages(jobs(1000));
    let claim = claim_number();
    let owned = Preclaim { claim, ..preclaim(node, &batch) };
    let inserted = store.insert(&batch, Some(&owned)).await.unwrap();
    assert_eq!(inserted.owned.len(), 1000);
    let seqs: std::collections::BTreeSet<i64> = inserted.owned.iter().map(|row| row.seq).collect();
    assert_eq!(seqs.len(), 1000);
    let done: Vec<Fence> = batch.iter().map(|message| Fence::new(message.id, claim.get())).collect();
    assert_eq!(store.complete(node, &done).await.unwrap().len(), 1000);
    assert_eq!(fences(&store.take(node, 1).await), []);
}

/// The monitor releases them like anything else that a dead node owns.
pub(crate) async fn is_released_when_its_node_dies<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let fence = store.send_owned(job(), node).await;
    db.bury(node).await;
    assert_eq!(store.release_all_lost().await, (1, 0));
    assert_eq!(store.complete(node, &[fence]).await.unwrap(), []);
    assert_eq!(store.detail(fence.id).await.summary.attempt, 1);
}
