//! `insert`: rows, order and due dates.

use std::time::Duration;

use jiff::Timestamp;
use jobwright::admin::JobState;
use jobwright::{NewJob, Payload};
use serde_json::json;

use crate::support::TestDb;
use crate::support::jobs::{LATER, ids, job, jobs, messages};

/// Inserts `count` jobs, claims them all and compares.
async fn inserts<T: TestDb>(db: &T, count: usize) {
    let store = db.jobs();
    let sent = store.send_all(jobs(count)).await;
    let node = store.node().await;
    let claimed = store.take(node, count + 1).await;
    assert_eq!(ids(&claimed), sent, "all, in the order they were sent");
    for (n, job) in claimed.iter().enumerate() {
        let payload: serde_json::Value = job.payload.decode().unwrap();
        assert_eq!(payload, serde_json::json!({ "n": n }), "each with its own payload");
    }
}

pub(crate) async fn one<T: TestDb>(db: &T) {
    inserts(db, 1).await;
}

pub(crate) async fn two<T: TestDb>(db: &T) {
    inserts(db, 2).await;
}

pub(crate) async fn a_thousand<T: TestDb>(db: &T) {
    inserts(db, 1000).await;
}

pub(crate) async fn five_thousand<T: TestDb>(db: &T) {
    inserts(db, 5000).await;
}

pub(crate) async fn none<T: TestDb>(db: &T) {
    let inserted = db.jobs().insert(&[], None).await.unwrap();
    assert_eq!(inserted.rows, 0);
    assert_eq!(db.jobs().all().await.len(), 0);
}

pub(crate) async fn later_sends_come_later<T: TestDb>(db: &T) {
    let store = db.jobs();
    let mut sent = Vec::new();
    for size in [1, 3, 2] {
        sent.extend(store.send_all(jobs(size)).await);
    }
    let listed = store.all().await;
    assert_eq!(listed.iter().map(|row| row.id).collect::<Vec<_>>(), sent);
    assert!(listed.is_sorted_by(|a, b| a.seq < b.seq), "seq never repeats");
}

/// A delay does not change the order: among jobs that are due, those sent first come first.
pub(crate) async fn delayed_jobs_keep_their_place<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = store.send_all((0..6).map(|n| if n % 2 == 0 { job().delay(LATER) } else { job() })).await;
    let listed = store.all().await;
    assert_eq!(listed.iter().map(|row| row.id).collect::<Vec<_>>(), sent);
}

pub(crate) async fn new_jobs_are_untouched<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = store.send_all([job().queue("q").priority(7).max_attempts(3), job().queue("q").delay(LATER)]).await;
    for id in sent {
        let detail = store.detail(id).await;
        assert_eq!((detail.version, detail.summary.attempt), (0, 0));
        assert_eq!((detail.summary.kind.as_str(), detail.summary.queue.as_str()), ("kind", "q"));
        assert_eq!((detail.summary.owner, detail.summary.claimed_at), (None, None));
        assert_eq!((detail.errors, detail.dead), (vec![], None));
        assert_eq!(detail.summary.last_error, None);
    }
    let first = &store.all().await[0];
    assert_eq!((first.priority, first.max_attempts), (7, 3));
}

pub(crate) async fn the_flush_is_dated<T: TestDb>(db: &T) {
    let store = db.jobs();
    // The server's clock may differ from ours, but on a test machine not by minutes.
    let minutes = Duration::from_secs(300);
    let id = store.send(job()).await;
    let age = Timestamp::now().duration_since(store.detail(id).await.summary.created_at);
    assert!(age.unsigned_abs() < minutes, "flushed {age} ago");
}

pub(crate) async fn a_due_job_waits<T: TestDb>(db: &T) {
    let store = db.jobs();
    let past = Timestamp::now() - LATER;
    for due in [job(), job().delay(Duration::ZERO), job().at(past), job().at(Timestamp::UNIX_EPOCH)] {
        let id = store.send(due).await;
        assert_eq!(store.state(id).await, Some(JobState::Waiting));
        assert_eq!(store.detail(id).await.summary.due_at, None);
    }
    let node = store.node().await;
    assert_eq!(store.take(node, 10).await.len(), 4);
}

pub(crate) async fn a_job_due_later_is_a_timer<T: TestDb>(db: &T) {
    let store = db.jobs();
    let century = Duration::from_secs(99 * 366 * 24 * 3600);
    let at = Timestamp::now() + LATER;
    let sent = store.send_all([job().delay(LATER), job().at(at), job().delay(century)]).await;
    for (id, delay) in sent.iter().zip([LATER, LATER, century]) {
        let summary = store.detail(*id).await.summary;
        assert_eq!(summary.state, JobState::Timer);
        let off = summary.due_at.unwrap().duration_since(summary.created_at + delay);
        assert!(off.unsigned_abs() < Duration::from_secs(60), "due {off} off");
    }
    let exact = store.detail(sent[1]).await.summary.due_at.unwrap();
    let off = exact.duration_since(at).unsigned_abs();
    assert!(off <= Duration::from_millis(1), "a given moment is kept: {exact} for {at}");
    let node = store.node().await;
    assert_eq!(store.take(node, 10).await.len(), 0);
}

/// Whether it takes one statement or not, a batch with one bad row writes nothing. The store can't know the bad row beforehand: it has the id of an
/// existing job, not marked as given.
pub(crate) async fn all_or_nothing<T: TestDb>(db: &T) {
    let store = db.jobs();
    let mut batch = messages(jobs(3));
    batch[2].id = store.send(job()).await;
    match store.insert(&batch, None).await {
        Err(_) => assert_eq!(store.all().await.len(), 1),
        // A store may also take every id for a given one.
        Ok(inserted) => assert_eq!((inserted.rows, store.all().await.len()), (2, 3)),
    }
}

pub(crate) async fn names_may_be_long_and_foreign<T: TestDb>(db: &T) {
    let store = db.jobs();
    for name in ["a".repeat(100), "ä/ö.ü".to_owned(), "队列".to_owned(), "it's \"quoted\" %_\\ $1".to_owned()] {
        let id = store.send(NewJob::json(&name, &1).queue(&name)).await;
        let node = store.node().await;
        let claimed = store.take_from(&name, node, 10).await;
        assert_eq!(ids(&claimed), [id]);
        assert_eq!((&claimed[0].kind, &claimed[0].queue), (&name, &name));
    }
}

/// The jobs of a batch differ in one property, for each property in turn, and then in all: a store may write equal ones in a shorter way, but must
/// not take different ones for equal.
pub(crate) async fn each_job_of_a_batch_keeps_its_own_values<T: TestDb>(db: &T) {
    const BATCH: usize = 70;
    let differ: [fn(usize, NewJob) -> NewJob; 7] = [
        |n, _| NewJob::json(format!("kind-{n}"), &json!({ "n": 1 })),
        |n, job| job.queue(format!("queue-{n}")),
        |n, job| job.priority(n as i16 - 30),
        |n, job| job.max_attempts(n as u32 + 1),
        |n, job| if n % 2 == 0 { job.header("n", n.to_string()) } else { job },
        |n, _| if n % 2 == 0 { job() } else { NewJob::new("kind", Payload::bytes("text/n", vec![n as u8; n])) },
        |n, job| if n % 2 == 0 { job.tenant(format!("tenant-{n}")) } else { job },
    ];
    let one = |what: usize| move |n| differ[what](n, job());
    let everything = |n| {
        let first = if n % 3 == 0 { differ[5](n, job()) } else { differ[0](n, job()) };
        [1, 2, 3, 4, 6].into_iter().fold(first, |job, what| differ[what](n, job))
    };
    let store = db.jobs();
    let mut batches: Vec<Vec<NewJob>> = (0..differ.len()).map(|what| (0..BATCH).map(one(what)).collect()).collect();
    batches.push((0..BATCH).map(everything).collect());
    for sent in batches {
        store.send_all(sent.clone()).await;
        for (n, sent) in messages(sent).into_iter().enumerate() {
            let stored = store.show(sent.id).await.unwrap().unwrap();
            let summary = &stored.summary;
            assert_eq!((&summary.kind, &summary.queue), (&sent.kind, &sent.queue), "{n}");
            assert_eq!((summary.priority, summary.max_attempts), (sent.priority, sent.max_attempts), "{n}");
            assert_eq!((&stored.headers, &stored.options), (&sent.headers, &sent.options), "{n}");
            let content = |payload: &Payload| match payload {
                Payload::Json(_) => (None, payload.decode::<serde_json::Value>().unwrap().to_string().into_bytes()),
                Payload::Bytes { content_type, body } => (Some(content_type.clone()), body.clone()),
            };
            assert_eq!(content(&stored.payload), content(&sent.payload), "{n}");
        }
    }
}
