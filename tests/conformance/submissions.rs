//! `receive`: submissions of external producers, perhaps repeated.

use std::time::Duration;

use jobwright::Store;
use jobwright::admin::JobState;
use jobwright::internal::Submission;
use jobwright::internal::engine::Received;
use jobwright::{JobId, JobMessage, NewJob};
use tokio::task::JoinSet;

use crate::conformance::hidden_rows::held;
use crate::support::jobs::{LATER, job, message};
use crate::support::{Jobs, TestDb, eventually};

/// Returns a submission under this id; `text` stands for all its content.
fn submission(id: JobId, text: u8) -> Submission {
    Submission { message: message(NewJob::json("kind", &text).id(id)), digest: [text; 32] }
}

pub(crate) async fn stored_once<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (a, b) = (JobId::new(), JobId::new());
    assert_eq!(store.receive(&[submission(a, 1)]).await.unwrap(), [Received::Stored(a)]);
    let answers = store.receive(&[submission(b, 2), submission(a, 1)]).await.unwrap();
    assert_eq!(answers, [Received::Stored(b), Received::Known(a)], "in the order of the submissions");
    assert_eq!(store.all().await.len(), 2);
    assert_eq!(store.receive(&[]).await.unwrap(), []);
    let node = store.node().await;
    let claimed = store.take_one(node).await;
    assert_eq!((claimed.id, claimed.payload.decode::<u8>().unwrap()), (a, 1));
}

pub(crate) async fn another_message_is_a_conflict<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = JobId::new();
    store.receive(&[submission(id, 1)]).await.unwrap();
    assert_eq!(store.receive(&[submission(id, 2)]).await.unwrap(), [Received::Conflict(id)]);
    assert_eq!(store.detail(id).await.payload.decode::<u8>().unwrap(), 1, "the first one counts");
    assert_eq!(store.receive(&[submission(id, 1)]).await.unwrap(), [Received::Known(id)]);
}

pub(crate) async fn twice_in_one_batch<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (id, old) = (JobId::new(), JobId::new());
    store.receive(&[submission(old, 1)]).await.unwrap();
    let batch = [(id, 1), (old, 2), (id, 2), (id, 1), (old, 1)].map(|(id, text)| submission(id, text));
    let answers = store.receive(&batch).await.unwrap();
    let expected = [
        Received::Stored(id),
        Received::Conflict(old),
        Received::Conflict(id),
        Received::Known(id),
        Received::Known(old),
    ];
    assert_eq!(answers, expected);
    assert_eq!(store.all().await.len(), 2);
}

pub(crate) async fn kept_for_later<T: TestDb>(db: &T) {
    let store = db.jobs();
    let later = message(job().id(JobId::new()).delay(LATER).header("a", "b"));
    let held = held(job().id(JobId::new()));
    let ids = [later.id, held.id];
    let batch = [later, held].map(|message| Submission { message, digest: [7; 32] });
    assert_eq!(store.receive(&batch).await.unwrap(), ids.map(Received::Stored));
    assert_eq!(store.state(ids[0]).await, Some(JobState::Timer));
    assert_eq!(store.detail(ids[0]).await.headers["a"], "b");
    let node = store.node().await;
    assert_eq!(store.take(node, 10).await.len(), 0, "the other one is held");
    assert_eq!(store.unhide(&ids).await.unwrap(), ["default"]);
}

/// A job of our own is submitted again from outside under the same id: there is no digest to compare with, so the first counts.
pub(crate) async fn of_a_live_job_of_ours<T: TestDb>(db: &T) {
    let store = db.jobs();
    for job in [job(), job().delay(LATER)] {
        let id = store.send(job).await;
        assert_eq!(store.receive(&[submission(id, 1)]).await.unwrap(), [Received::Known(id)]);
        assert_eq!(store.receive(&[submission(id, 1)]).await.unwrap(), [Received::Known(id)]);
        assert_eq!(store.receive(&[submission(id, 2)]).await.unwrap(), [Received::Conflict(id)]);
    }
    assert_eq!(store.all().await.len(), 2);
}

pub(crate) async fn known_after_the_job_is_gone<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = JobId::new();
    store.receive(&[submission(id, 1)]).await.unwrap();
    let node = store.node().await;
    let claimed = store.take_one(node).await;
    store.complete(node, &[claimed.fence()]).await.unwrap();
    assert_eq!(store.receive(&[submission(id, 1)]).await.unwrap(), [Received::Known(id)]);
    assert_eq!(store.receive(&[submission(id, 2)]).await.unwrap(), [Received::Conflict(id)]);
    assert_eq!(store.all().await.len(), 0, "it does not run again");
}

/// Batches overlap in different orders: each submission is stored once, all are answered, and none gets stuck.
pub(crate) async fn racing_receivers<T: TestDb>(db: &T) {
    let handles = [db.jobs(), Jobs(db.reopen().await.engine())];
    for _ in 0..5 {
        let shared: Vec<JobId> = (0..100).map(|_| JobId::new()).collect();
        let mut tasks = JoinSet::new();
        for n in 0..4 {
            let store = handles[n % 2].clone();
            let mut order = shared.clone();
            order.rotate_left(n * 23);
            if n % 2 == 1 {
                order.reverse();
            }
            tasks.spawn(async move {
                let batch: Vec<Submission> = order.into_iter().map(|id| submission(id, 1)).collect();
                let answers = store.receive(&batch).await.unwrap();
                assert_eq!(answers.len(), batch.len());
                answers
            });
        }
        let answers = tasks.join_all().await.concat();
        let stored = answers.iter().filter(|answer| matches!(answer, Received::Stored(_))).count();
        let known = answers.iter().filter(|answer| matches!(answer, Received::Known(_))).count();
        assert_eq!((stored, known), (100, 300));
    }
    assert_eq!(handles[0].all().await.len(), 500);
}

pub(crate) async fn pruned_by_age<T: TestDb>(db: &T) {
    let store = db.jobs();
    let ids: Vec<JobId> = (0..5).map(|_| JobId::new()).collect();
    let batch: Vec<Submission> = ids.iter().map(|id| submission(*id, 1)).collect();
    store.receive(&batch).await.unwrap();
    assert_eq!(store.prune_submissions(LATER, 100).await.unwrap(), 0);
    let mut gone = 0;
    eventually(Duration::from_secs(10), async || {
        let pruned = store.prune_submissions(Duration::from_millis(50), 2).await.unwrap();
        assert!(pruned <= 2);
        gone += pruned;
        gone == 5
    })
    .await;
    assert_eq!(store.all().await.len(), 5, "the jobs stay");
    // The submission is forgotten, as if it had never come, but its job exists.
    assert_eq!(store.receive(&[submission(ids[0], 2)]).await.unwrap(), [Received::Known(ids[0])]);
}

pub(crate) async fn a_full_batch<T: TestDb>(db: &T) {
    let store = db.jobs();
    let messages: Vec<JobMessage> = (0..500).map(|_| message(job().id(JobId::new()))).collect();
    let batch: Vec<Submission> = messages.into_iter().map(|message| Submission { message, digest: [0; 32] }).collect();
    let answers = store.receive(&batch).await.unwrap();
    assert!(answers.iter().zip(&batch).all(|(answer, one)| *answer == Received::Stored(one.message.id)));
    let node = store.node().await;
    let order: Vec<JobId> = store.take(node, 500).await.iter().map(|job| job.id).collect();
    assert_eq!(order, batch.iter().map(|one| one.message.id).collect::<Vec<_>>(), "in the order they came");
}
