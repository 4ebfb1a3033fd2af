//! Batches whose messages are legal one by one but large together: a store may split them, and the caller does not notice.

use jobwright::Store;
use jobwright::admin::JobState;
use jobwright::internal::Submission;
use jobwright::internal::engine::{ExternalDone, Inserted, Received, UnitOfWork as _};
use jobwright::{JobId, JobMessage, NewJob, Payload};

use crate::support::jobs::{LATER, fences, hand_out_number, ids, job, message, preclaim, set};
use crate::support::{Jobs, TestDb};

/// More than any store writes with one statement.
const MANY: usize = 24;

/// Returns a megabyte of empty arrays: 87 times as much once it is parsed.
fn text() -> String {
    format!("[{}1]", "[],".repeat(349_000))
}

fn document() -> Payload {
    Payload::json_text(text()).unwrap()
}

/// Whether it is that document, compared as text: parsing it takes most of a second without optimisation. PostgreSQL adds spaces.
fn is_whole(payload: &Payload) -> bool {
    payload.as_str().is_some_and(|stored| stored.replace(' ', "") == text())
}

fn heavy(change: impl Fn(NewJob) -> NewJob) -> Vec<JobMessage> {
    let document = document();
    (0..MANY).map(|n| message(change(NewJob::new("kind", document.clone()).header("n", n.to_string())))).collect()
}

/// Asserts that all messages arrived whole, in the order in which they were sent.
async fn arrived<T: TestDb>(db: &T, sent: &[JobMessage]) {
    let store = db.jobs();
    let node = store.node().await;
    for (n, sent) in sent.iter().enumerate() {
        let job = store.take_one(node).await;
        assert_eq!((job.id, job.headers["n"].as_str()), (sent.id, n.to_string().as_str()));
        assert!(is_whole(&job.payload), "{} arrived otherwise", job.id);
    }
    assert_eq!(store.count(JobState::Waiting).await, 0);
}

pub(crate) async fn sixty_four_documents_of_a_megabyte<T: TestDb>(db: &T) {
    let store = db.jobs();
    let document = document();
    let sent: Vec<JobMessage> = (0..64).map(|_| message(NewJob::new("kind", document.clone()))).collect();
    assert_eq!(store.insert(&sent, None).await.unwrap().rows, 64);
    let node = store.node().await;
    for sent in &sent {
        let job = store.take_one(node).await;
        assert_eq!(job.id, sent.id);
        assert!(is_whole(&job.payload), "{} arrived otherwise", job.id);
    }
}

pub(crate) async fn in_a_transaction_of_the_caller<T: TestDb>(db: &T) {
    let sent = heavy(|job| job);
    let mut transaction = db.store().begin().await.unwrap();
    transaction.insert(&sent, None).await.unwrap();
    transaction.rollback().await.unwrap();
    assert_eq!(db.jobs().all().await.len(), 0);
    let mut transaction = db.store().begin().await.unwrap();
    assert_eq!(transaction.insert(&sent, None).await.unwrap().rows, MANY as u64);
    transaction.commit().await.unwrap();
    arrived(db, &sent).await;
}

pub(crate) async fn owned_from_the_start<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let sent = heavy(|job| job);
    let owned = preclaim(node, sent.iter().step_by(2));
    let inserted = store.insert(&sent, Some(&owned)).await.unwrap();
    assert_eq!(inserted.rows, MANY as u64);
    assert_eq!(set(inserted.owned.iter().map(|row| row.id)), set(owned.ids.iter().copied()));
    let order = |id: JobId| inserted.owned.iter().find(|row| row.id == id).map(|row| row.seq);
    let own: Vec<JobId> = sent.iter().step_by(2).map(|message| message.id).collect();
    assert!(own.is_sorted_by_key(|id| order(*id)));
}

pub(crate) async fn ids_that_are_given_twice_count_once<T: TestDb>(db: &T) {
    let store = db.jobs();
    let mut sent = heavy(|job| job.id(JobId::new()));
    sent[MANY - 1].id = sent[0].id;
    assert_eq!(store.insert(&sent, None).await.unwrap().rows, MANY as u64 - 1);
    arrived(db, &sent[..MANY - 1]).await;
}

/// Whatever the order in which each sender names the ids, they do not deadlock.
pub(crate) async fn the_same_ids_by_two_senders_at_once<T: TestDb>(db: &T) {
    let store = db.jobs();
    let body = vec![0; 1_000_000];
    let sent = || message(NewJob::new("kind", Payload::bytes("text/plain", body.clone())).id(JobId::new()));
    for round in 0..10 {
        let one: Vec<JobMessage> = (0..MANY).map(|_| sent()).collect();
        let other: Vec<JobMessage> = one.iter().rev().cloned().collect();
        let (first, second) = if round % 2 == 0 {
            tokio::join!(store.insert(&one, None), store.insert(&other, None))
        } else {
            tokio::join!(within(db, &one), within(db, &other))
        };
        assert_eq!(first.unwrap().rows + second.unwrap().rows, MANY as u64);
    }
}

async fn within<T: TestDb>(db: &T, messages: &[JobMessage]) -> jobwright::Result<Inserted> {
    let mut transaction = db.store().begin().await?;
    let inserted = transaction.insert(messages, None).await?;
    transaction.commit().await?;
    Ok(inserted)
}

pub(crate) async fn submissions<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = heavy(|job| job.id(JobId::new()));
    let batch: Vec<Submission> =
        sent.iter().map(|message| Submission { message: message.clone(), digest: [1; 32] }).collect();
    let first = store.receive(&batch).await.unwrap();
    assert!(first.iter().all(|received| matches!(received, Received::Stored(_))), "{first:?}");
    let again = store.receive(&batch).await.unwrap();
    assert!(again.iter().all(|received| matches!(received, Received::Known(_))), "{again:?}");
    arrived(db, &sent).await;
}

/// The first of two outcomes of a job counts, however far apart they are in the batch.
pub(crate) async fn results_of_external_workers<T: TestDb>(db: &T) {
    let store: Jobs = db.jobs();
    store.send_all((0..MANY).map(|_| job().header("replyTo", "them"))).await;
    let handed = store.hand_out("default", MANY, LATER, hand_out_number()).await.unwrap();
    let document = document();
    let mut done: Vec<ExternalDone> =
        fences(&handed).into_iter().map(|fence| ExternalDone { fence, result: Some(document.clone()) }).collect();
    done.push(ExternalDone { fence: handed[0].fence(), result: None });
    let accepted = store.complete_external(&done).await.unwrap().ids;
    assert_eq!((accepted.len(), set(accepted)), (MANY, set(ids(&handed))));
    let node = store.node().await;
    for _ in 0..MANY {
        let reply = store.take_from(jobwright::headers::REPLY_QUEUE, node, 1).await.remove(0);
        assert!(is_whole(&reply.payload), "{} arrived otherwise", reply.id);
    }
    assert_eq!(store.count(JobState::Waiting).await, 0);
}
