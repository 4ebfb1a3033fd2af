//! A given id that is known as that of another job, with another kind or queue, is a conflict: taken for sent, the job would be lost.

use jobwright::Store;
use jobwright::admin::{JobFilter, JobState};
use jobwright::internal::Submission;
use jobwright::internal::engine::{Received, UnitOfWork as _, Verdict};
use jobwright::{ErrorKind, JobId, NewJob};

use crate::support::jobs::{LATER, hand_out_number, job, message, messages, preclaim};
use crate::support::{Jobs, TestDb};

/// Returns jobs with this id that can't be the one of [`job`], and what the error says of each.
pub(crate) fn others(id: JobId) -> [(NewJob, &'static str); 4] {
    [
        (NewJob::json("other", &"theirs").id(id), "with another kind:"),
        (job().queue("other").id(id), "with another queue:"),
        (NewJob::json("other", &1).queue("other").delay(LATER).id(id), "with another kind and another queue:"),
        (NewJob::json("other", &1).exclusive("g").id(id), "with another kind:"),
    ]
}

/// Asserts that another job of this id is refused in every possible way, and that the same is not.
pub(crate) async fn is_refused_for_others<T: TestDb>(db: &T, store: &Jobs, id: JobId, state: JobState) {
    assert_eq!(store.state(id).await, Some(state));
    let before = (format!("{:?}", store.detail(id).await), store.all().await.len());
    let node = store.node().await;
    for (other, why) in others(id) {
        let flush = messages([job(), job().id(JobId::new()), other, job().delay(LATER)]);
        let owned = preclaim(node, &flush[..2]);
        for owned in [None, Some(&owned)] {
            let error = store.insert(&flush, owned).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{state}: {error}");
            let said = error.to_string();
            assert!(said.contains(&id.to_string()) && said.contains(why) && !error.is_retryable(), "{state}: {said}");
        }
        let mut transaction = db.store().begin().await.unwrap();
        assert_eq!(transaction.insert(&flush, None).await.unwrap_err().kind(), ErrorKind::Conflict);
        // Nothing was written, so the transaction can go on.
        let same = transaction.insert(&messages([job().id(id)]), None).await.unwrap();
        assert_eq!((same.rows, same.known), (0, vec![id]), "{state}");
        transaction.commit().await.unwrap();
    }
    let same = store.insert(&messages([job().id(id)]), None).await.unwrap();
    assert_eq!((same.rows, same.known), (0, vec![id]), "{state}");
    let after = (format!("{:?}", store.detail(id).await), store.all().await.len());
    assert_eq!(after, before, "{state}");
    store.delete(&JobFilter::ids([id]), false).await.unwrap();
    store.cancel(&JobFilter::ids([id]), false).await.unwrap();
}

pub(crate) async fn of_a_waiting_job<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job()).await;
    is_refused_for_others(db, &store, id, JobState::Waiting).await;
    let id = store.send(job().id(JobId::new())).await;
    is_refused_for_others(db, &store, id, JobState::Waiting).await;
}

pub(crate) async fn of_a_running_job<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (_, claimed) = store.running(job()).await;
    is_refused_for_others(db, &store, claimed.id, JobState::Running).await;
}

pub(crate) async fn of_a_timer<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job().delay(LATER)).await;
    is_refused_for_others(db, &store, id, JobState::Timer).await;
}

pub(crate) async fn of_a_suspended_job<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job()).await;
    db.suspend(id).await;
    is_refused_for_others(db, &store, id, JobState::Suspended).await;
}

pub(crate) async fn of_a_dead_letter<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    assert!(store.settle_one(node, claimed.fence(), Verdict::Dead).await);
    is_refused_for_others(db, &store, claimed.id, JobState::Dead).await;
}

pub(crate) async fn of_an_external_job<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job()).await;
    assert_eq!(store.hand_out("default", 1, LATER, hand_out_number()).await.unwrap().len(), 1);
    is_refused_for_others(db, &store, id, JobState::External).await;
}

/// Nothing is suppressed by a job that is gone, so its id is free for any other.
pub(crate) async fn of_a_job_that_is_gone<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job().id(JobId::new())).await;
    store.finish(node, &claimed).await;
    let (other, _) = others(claimed.id).into_iter().next().unwrap();
    assert_eq!(store.insert(&messages([other]), None).await.unwrap().rows, 1);
}

pub(crate) async fn one_flush_for_two_jobs<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = JobId::new();
    for (other, _) in others(id) {
        let flush = messages([job().id(id), job(), other]);
        assert_eq!(store.insert(&flush, None).await.unwrap_err().kind(), ErrorKind::Conflict);
    }
    assert_eq!(store.all().await.len(), 0);
}

/// The refused submission leaves no record: the job may be submitted as it was sent.
pub(crate) async fn of_a_submission<T: TestDb>(db: &T) {
    let store = db.jobs();
    let submission = |job: NewJob, digest: u8| Submission { message: message(job), digest: [digest; 32] };
    for (n, sent) in [job(), job().delay(LATER)].into_iter().enumerate() {
        let id = store.send(sent).await;
        for (other, _) in others(id) {
            let fresh = JobId::new();
            let batch = [submission(job().id(fresh), 1), submission(other.clone(), 2), submission(other, 2)];
            let (stored, conflict) = (Received::Stored(fresh), Received::Conflict(id));
            assert_eq!(store.receive(&batch).await.unwrap(), [stored, conflict.clone(), conflict]);
        }
        assert_eq!(store.receive(&[submission(job().id(id), 3)]).await.unwrap(), [Received::Known(id)]);
        assert_eq!(store.receive(&[submission(job().id(id), 4)]).await.unwrap(), [Received::Conflict(id)]);
        assert_eq!(store.all().await.len(), 5 * (n + 1));
    }
}
