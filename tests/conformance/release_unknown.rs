//! `release_unknown`: a live node gives back jobs that it owns without knowing it.

use std::time::Duration;

use jobwright::admin::{JobFilter, JobState};
use jobwright::internal::{ClaimNumber, Fence};
use jobwright::{Job, JobId};

use crate::support::TestDb;
use crate::support::jobs::{NOBODY, claim_number, job, jobs};

fn fences(jobs: &[Job]) -> Vec<Fence> {
    jobs.iter().map(Job::fence).collect()
}

/// The answer to a claim got lost: the node owns jobs and does not know it.
pub(crate) async fn an_unheard_claim_costs_nothing<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(5).into_iter().map(|job| job.max_attempts(1))).await;
    let node = store.node().await;
    let heard = store.take(node, 2).await;
    let unheard = store.take(node, 3).await;
    let known = fences(&heard);
    assert_eq!(store.release_unknown(node, &known, None).await.unwrap(), 3);
    for job in &unheard {
        let detail = store.detail(job.id).await;
        assert_eq!((detail.summary.state, detail.summary.attempt), (JobState::Waiting, 0));
        assert_eq!((detail.summary.owner, detail.errors.len()), (None, 0));
    }
    // The answer that arrives after all is worthless.
    assert_eq!(store.complete(node, &[unheard[0].fence()]).await.unwrap(), []);
    for job in &heard {
        assert_eq!(store.complete(node, &[job.fence()]).await.unwrap(), [job.id]);
    }
    let again = store.take(node, 10).await;
    assert_eq!(again.iter().map(|job| job.attempt).collect::<Vec<_>>(), [1, 1, 1]);
    assert!(again.iter().all(|job| job.version != unheard[0].version));
    assert_eq!(store.release_unknown(node, &fences(&again), None).await.unwrap(), 0);
}

/// A job was cancelled and sent again: its old handler still runs, and must not stand for the new row, whose claim got lost.
pub(crate) async fn an_old_claim_does_not_hide_a_lost_one<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, old) = store.running(job()).await;
    store.cancel(&JobFilter::ids([old.id]), false).await.unwrap();
    store.send(job().id(old.id)).await;
    let lost = store.take_one(node).await;
    assert_eq!((lost.id, lost.version == old.version), (old.id, false));
    assert_eq!(store.release_unknown(node, &[old.fence(), lost.fence()], None).await.unwrap(), 0);
    assert_eq!(store.state(lost.id).await, Some(JobState::Running), "in hand");
    assert_eq!(store.release_unknown(node, &[old.fence()], None).await.unwrap(), 1);
    let row = store.detail(lost.id).await.summary;
    assert_eq!((row.state, row.attempt, row.owner), (JobState::Waiting, 0, None));
}

pub(crate) async fn knowing_nothing_gives_back_all<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(3)).await;
    let node = store.node().await;
    store.take(node, 3).await;
    store.send_owned(job(), node).await;
    assert_eq!(store.release_unknown(node, &[], None).await.unwrap(), 4);
    assert_eq!(store.count(JobState::Waiting).await, 4);
    assert_eq!(store.release_unknown(node, &[], None).await.unwrap(), 0);
}

/// Jobs claimed after the node listed its jobs in flight are not released: claims go on meanwhile.
pub(crate) async fn later_claims_are_left_alone<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(3)).await;
    let node = store.node().await;
    let unheard = store.take(node, 1).await;
    let before = claim_number();
    let later = store.take(node, 1).await;
    assert_eq!(store.release_unknown(node, &[], Some(before)).await.unwrap(), 1);
    assert_eq!(store.state(unheard[0].id).await, Some(JobState::Waiting));
    assert_eq!(store.complete(node, &[later[0].fence()]).await.unwrap(), [later[0].id]);
}

/// Where the answer to a commit got lost, it is known which rows it may have written.
pub(crate) async fn by_name_too<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(4)).await;
    let (node, other) = (store.node().await, store.node().await);
    let (claimed, kept) = (store.take(node, 2).await, store.take(node, 1).await);
    let theirs = store.take(other, 1).await;
    let ids: Vec<JobId> = claimed.iter().chain(&kept).chain(&theirs).map(|job| job.id).chain([JobId::new()]).collect();
    let claim = ClaimNumber::new(u32::try_from(claimed[0].version).unwrap() - 1);
    assert_eq!(store.release_claimed(node, claim, &ids).await.unwrap(), 2);
    for job in &claimed {
        let row = store.detail(job.id).await.summary;
        assert_eq!((row.state, row.attempt, row.owner), (JobState::Waiting, 0, None));
    }
    assert_eq!(store.release_claimed(node, claim, &ids).await.unwrap(), 0);
    assert_eq!(store.complete(node, &[kept[0].fence()]).await.unwrap(), [kept[0].id], "of another claim");
    assert_eq!(store.complete(other, &[theirs[0].fence()]).await.unwrap(), [theirs[0].id], "of another node");
}

/// The database refuses a job's outcome: the attempt is spent, and the job does not run again at once.
pub(crate) async fn put_off_is_spent_and_hidden<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    let late = Fence::new(claimed.id, claimed.version + 1);
    // Rows are hidden no longer than the maximum: a later `visible_at` counts as past.
    let minute = Duration::from_secs(60);
    store.put_off(node, late, minute).await.unwrap();
    assert_eq!(store.state(claimed.id).await, Some(JobState::Running), "of another claim");
    store.put_off(node, claimed.fence(), minute).await.unwrap();
    let row = store.detail(claimed.id).await.summary;
    assert_eq!((row.state, row.attempt, row.owner), (JobState::Waiting, 1, None));
    assert_eq!(store.take(node, 1).await.len(), 0, "held");
    assert_eq!(store.complete(node, &[claimed.fence()]).await.unwrap(), []);
}

pub(crate) async fn others_keep_theirs<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(4)).await;
    let (one, other) = (store.node().await, store.node().await);
    let kept = store.take(other, 2).await;
    store.take(one, 1).await;
    assert_eq!(store.release_unknown(NOBODY, &[], None).await.unwrap(), 0);
    assert_eq!(store.release_unknown(one, &[Fence::new(JobId::new(), 1)], None).await.unwrap(), 1);
    assert_eq!(store.count(JobState::Running).await, 2);
    for job in kept {
        assert_eq!(store.complete(other, &[job.fence()]).await.unwrap(), [job.id]);
    }
}
