//! `release_unknown`: a live node gives back what it owns and never heard of.

use jobwright::JobId;
use jobwright::store::JobState;

use crate::support::TestDb;
use crate::support::jobs::{NOBODY, job, jobs};

/// The answer to a claim got lost: the node owns jobs and does not know it.
pub(crate) async fn an_unheard_claim_costs_nothing<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(5).into_iter().map(|job| job.max_attempts(1))).await;
    let node = store.node().await;
    let heard = store.take(node, 2).await;
    let unheard = store.take(node, 3).await;
    let known: Vec<JobId> = heard.iter().map(|job| job.id).collect();
    assert_eq!(store.release_unknown(node, &known).await.unwrap(), 3);
    for job in &unheard {
        let detail = store.detail(job.id).await;
        assert_eq!((detail.summary.state, detail.summary.attempt), (JobState::Waiting, 0));
        assert_eq!((detail.summary.owner, detail.errors.len()), (None, 0));
    }
    // The answer that comes after all is worth nothing.
    assert_eq!(store.complete(node, &[unheard[0].fence()]).await.unwrap(), []);
    for job in &heard {
        assert_eq!(store.complete(node, &[job.fence()]).await.unwrap(), [job.id]);
    }
    let again = store.take(node, 10).await;
    assert_eq!(again.iter().map(|job| job.attempt).collect::<Vec<_>>(), [1, 1, 1]);
    assert!(again.iter().all(|job| job.version == 2));
    assert_eq!(store.release_unknown(node, &again.iter().map(|job| job.id).collect::<Vec<_>>()).await.unwrap(), 0);
}

pub(crate) async fn knowing_nothing_gives_back_all<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(3)).await;
    let node = store.node().await;
    store.take(node, 3).await;
    store.send_owned(job(), node).await;
    assert_eq!(store.release_unknown(node, &[]).await.unwrap(), 4);
    assert_eq!(store.count(JobState::Waiting).await, 4);
    assert_eq!(store.release_unknown(node, &[]).await.unwrap(), 0);
}

pub(crate) async fn others_keep_theirs<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(4)).await;
    let (one, other) = (store.node().await, store.node().await);
    let kept = store.take(other, 2).await;
    store.take(one, 1).await;
    assert_eq!(store.release_unknown(NOBODY, &[]).await.unwrap(), 0);
    assert_eq!(store.release_unknown(one, &[JobId::new()]).await.unwrap(), 1);
    assert_eq!(store.count(JobState::Running).await, 2);
    for job in kept {
        assert_eq!(store.complete(other, &[job.fence()]).await.unwrap(), [job.id]);
    }
}
