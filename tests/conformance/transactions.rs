//! `Store` and `UnitOfWork`: what a context does with its transaction.

use jobwright::JobId;
use jobwright::Store;
use jobwright::admin::{JobFilter, JobState};
use jobwright::internal::Fence;
use jobwright::internal::engine::{Preclaim, UnitOfWork, Verdict};

use crate::support::TestDb;
use crate::support::jobs::{LATER, claim_number, job, jobs, messages, preclaim, set, with_version};

pub(crate) async fn nothing_is_seen_before_the_commit<T: TestDb>(db: &T) {
    let store = db.store();
    let other = db.reopen().await.engine();
    let node = db.jobs().node().await;
    let batch = messages([job(), job().delay(LATER)]);
    let mut tx = store.begin().await.unwrap();
    assert_eq!(tx.insert(&batch, None).await.unwrap().rows, 2);
    let seen = other.list(&JobFilter::default(), &jobwright::admin::Page::default()).await.unwrap();
    assert_eq!(seen.len(), 0);
    tx.commit().await.unwrap();
    let jobs = db.jobs();
    assert_eq!(jobs.all().await.len(), 2);
    assert_eq!(jobs.take(node, 10).await.len(), 1);
}

pub(crate) async fn rolled_back_is_nothing<T: TestDb>(db: &T) {
    let store = db.store();
    let jobs = db.jobs();
    let (node, claimed) = jobs.running(job()).await;
    for explicit in [true, false] {
        let mut tx = store.begin().await.unwrap();
        tx.insert(&messages([job()]), None).await.unwrap();
        let born = messages([job()]);
        assert_eq!(tx.insert(&born, Some(&preclaim(node, &born))).await.unwrap().owned.len(), 1);
        assert!(tx.remove(node, claimed.fence()).await.unwrap());
        if explicit {
            tx.rollback().await.unwrap();
        } else {
            drop(tx);
        }
        assert_eq!(jobs.all().await.len(), 1, "explicit: {explicit}");
        assert_eq!(jobs.state(claimed.id).await, Some(JobState::Running));
    }
    assert_eq!(jobs.complete(node, &[claimed.fence()]).await.unwrap(), [claimed.id], "the claim is still good");
}

pub(crate) async fn several_flushes_in_one<T: TestDb>(db: &T) {
    let store = db.store();
    let mut tx = store.begin().await.unwrap();
    let first = messages(jobs(2));
    let second = messages(jobs(2));
    tx.insert(&first, None).await.unwrap();
    tx.insert(&[], None).await.unwrap();
    tx.insert(&second, None).await.unwrap();
    tx.commit().await.unwrap();
    let listed: Vec<_> = db.jobs().all().await.iter().map(|row| row.id).collect();
    assert_eq!(listed, first.iter().chain(&second).map(|message| message.id).collect::<Vec<_>>());
}

/// The handler's messages and the removal of its job commit together.
pub(crate) async fn a_handler_commits_all_at_once<T: TestDb>(db: &T) {
    let store = db.store();
    let jobs = db.jobs();
    let (node, claimed) = jobs.running(job()).await;
    let next = messages([job().queue("next")]);
    let mut tx = store.begin().await.unwrap();
    tx.insert(&next, None).await.unwrap();
    assert!(tx.remove(node, claimed.fence()).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(jobs.state(claimed.id).await, None);
    assert_eq!(jobs.state(next[0].id).await, Some(JobState::Waiting));
    assert_eq!(jobs.complete(node, &[claimed.fence()]).await.unwrap(), [], "already gone");
}

/// A zombie learns that its claim is gone before it can commit.
pub(crate) async fn a_stale_claim_is_not_removed<T: TestDb>(db: &T) {
    let store = db.store();
    let jobs = db.jobs();
    let (zombie, claimed) = jobs.running(job()).await;
    let other = jobs.node().await;
    let stale = with_version(claimed.fence(), claimed.version + 1);
    let stranger = Fence::new(JobId::new(), 1);
    let refused = async |node, fence| {
        let mut tx = store.begin().await.unwrap();
        tx.insert(&messages([job()]), None).await.unwrap();
        assert!(!tx.remove(node, fence).await.unwrap());
        tx.rollback().await.unwrap();
        assert_eq!(jobs.all().await.len(), 1);
    };
    refused(other, claimed.fence()).await;
    refused(zombie, stale).await;
    refused(zombie, stranger).await;
    db.bury(zombie).await;
    assert_eq!(jobs.release_all_lost().await, (1, 0));
    refused(zombie, claimed.fence()).await;
    let again = jobs.take_one(other).await;
    refused(zombie, claimed.fence()).await;
    refused(zombie, again.fence()).await;
    assert_eq!(jobs.complete(other, &[again.fence()]).await.unwrap(), [again.id]);
}

/// Jobs that were handled together are removed together: with one stale claim, none is removed.
pub(crate) async fn removed_together_all_claims_have_to_be_current<T: TestDb>(db: &T) {
    let store = db.store();
    let jobs = db.jobs();
    let sent = jobs.send_all((0..5).map(|_| job())).await;
    let node = jobs.node().await;
    let other = jobs.node().await;
    let claimed = jobs.take(node, 4).await;
    let mut fences: Vec<Fence> = claimed.iter().map(jobwright::Job::fence).collect();
    let stranger = jobs.take_one(other).await.fence();
    let stale = with_version(fences[3], fences[3].version - 1);
    for wrong in [stale, stranger, Fence::new(JobId::new(), 1)] {
        let mut tx = store.begin().await.unwrap();
        assert!(!tx.remove_all(node, &[fences[0], wrong]).await.unwrap());
        tx.rollback().await.unwrap();
        assert_eq!(jobs.all().await.len(), 5);
    }
    let last = fences.pop().unwrap();
    let mut tx = store.begin().await.unwrap();
    assert!(tx.remove_all(node, &[]).await.unwrap());
    assert!(tx.remove_all(node, &fences).await.unwrap());
    tx.insert(&messages([job()]), None).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(jobs.all().await.len(), 3, "{sent:?}");
    assert_eq!(jobs.complete(node, &[last]).await.unwrap(), [last.id]);
}

pub(crate) async fn inserts_like_the_engine<T: TestDb>(db: &T) {
    let store = db.store();
    let jobs = db.jobs();
    let node = jobs.node().await;
    let known = jobs.send(job().id(JobId::new()).delay(LATER)).await;
    let batch = messages([job(), job().id(known), job().id(JobId::new()), job().delay(LATER)]);
    let mut tx = store.begin().await.unwrap();
    let claim = claim_number();
    let owned = Preclaim { claim, ..preclaim(node, &batch) };
    let inserted = tx.insert(&batch, Some(&owned)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(inserted.rows, 3);
    assert_eq!(set(inserted.owned.iter().map(|row| row.id)), set([batch[0].id, batch[2].id]));
    for row in &inserted.owned {
        let detail = jobs.detail(row.id).await;
        assert_eq!((detail.summary.seq, detail.summary.created_at), (row.seq, row.created_at));
    }
    let done: Vec<_> = inserted.owned.iter().map(|row| Fence::new(row.id, claim.get())).collect();
    assert_eq!(jobs.complete(node, &done).await.unwrap().len(), 2);
    assert_eq!(jobs.count(JobState::Timer).await, 2);
}

pub(crate) async fn a_thousand_in_one_flush<T: TestDb>(db: &T) {
    let store = db.store();
    let batch = messages(jobs(1000));
    let mut tx = store.begin().await.unwrap();
    assert_eq!(tx.insert(&batch, None).await.unwrap().rows, 1000);
    tx.commit().await.unwrap();
    assert!(db.jobs().all().await.iter().map(|row| row.id).eq(batch.iter().map(|message| message.id)));
}

pub(crate) async fn nothing_to_commit<T: TestDb>(db: &T) {
    let store = db.store();
    store.begin().await.unwrap().commit().await.unwrap();
    store.begin().await.unwrap().rollback().await.unwrap();
    drop(store.begin().await.unwrap());
    assert_eq!(db.jobs().all().await.len(), 0);
}

/// A dropped transaction returns its connection: more of them are dropped than there are connections.
pub(crate) async fn dropped_transactions_leave_nothing_behind<T: TestDb>(db: &T) {
    let store = db.store();
    let jobs = db.jobs();
    let (node, claimed) = jobs.running(job()).await;
    for _ in 0..30 {
        let mut tx = store.begin().await.unwrap();
        assert!(tx.remove(node, claimed.fence()).await.unwrap());
        drop(tx);
    }
    assert!(jobs.settle_one(node, claimed.fence(), Verdict::Cancel).await);
}
