//! Hidden rows: a head start for a delivery, and nothing more.

use std::time::Duration;

use jobwright::internal::engine::{ClaimRequest, MAX_HIDDEN, Verdict};
use jobwright::{Job, JobId, JobMessage, NewJob, NodeId};

use crate::support::jobs::{LATER, claim_number, ids, job, jobs, message, preclaim, set};
use crate::support::{Jobs, TestDb, eventually};

/// Returns a message whose row is hidden for as long as possible.
pub(crate) fn held(job: NewJob) -> JobMessage {
    held_for(MAX_HIDDEN, job)
}

fn held_for(hidden_for: Duration, job: NewJob) -> JobMessage {
    let mut message = message(job);
    message.hidden_for = hidden_for;
    message
}

/// Sends messages unchanged.
pub(crate) async fn send(store: &Jobs, messages: &[JobMessage]) -> Vec<JobId> {
    assert_eq!(store.insert(messages, None).await.unwrap().rows, messages.len() as u64);
    messages.iter().map(|message| message.id).collect()
}

/// Claims from the table while nothing is delivered.
async fn take_all(store: &Jobs, node: NodeId) -> Vec<Job> {
    let request = ClaimRequest::new(node, claim_number(), "default", 100).include_hidden(true);
    store.claim(&request).await.unwrap().jobs
}

pub(crate) async fn claims_pass_over_it<T: TestDb>(db: &T) {
    let store = db.jobs();
    let first = held(job());
    send(&store, &[first]).await;
    let free = store.send_all(jobs(2)).await;
    let node = store.node().await;
    assert_eq!(ids(&store.take(node, 10).await), free, "the held one does not use up the limit either");
    assert_eq!(store.take(node, 10).await.len(), 0);
}

pub(crate) async fn a_full_look_finds_it<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = send(&store, &[held(job()), message(job()), held(job().priority(3))]).await;
    let node = store.node().await;
    assert_eq!(set(ids(&take_all(&store, node).await)), set(sent));
}

pub(crate) async fn until_the_hold_runs_out<T: TestDb>(db: &T) {
    let store = db.jobs();
    let brief = held_for(Duration::from_millis(300), job());
    let sent = send(&store, &[brief]).await;
    let node = store.node().await;
    let mut looks = 0;
    eventually(Duration::from_secs(10), async || {
        looks += 1;
        ids(&store.take(node, 1).await) == sent
    })
    .await;
    assert!(looks > 1, "it was not held at all");
}

pub(crate) async fn unhide_ends_it<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = send(&store, &[held(job()), held(job())]).await;
    let node = store.node().await;
    assert_eq!(store.unhide(&sent[1..]).await.unwrap(), ["default"]);
    assert_eq!(ids(&store.take(node, 10).await), sent[1..]);
    assert_eq!(store.unhide(&sent[1..]).await.unwrap(), [""; 0], "it runs");
    assert_eq!(store.unhide(&[JobId::new()]).await.unwrap(), [""; 0]);
    assert_eq!(store.unhide(&[]).await.unwrap(), [""; 0]);
}

pub(crate) async fn unhide_returns_each_queue_once<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent =
        send(&store, &[held(job().queue("a")), held(job().queue("b")), held(job().queue("a")), message(job())]).await;
    let mut queues = store.unhide(&sent).await.unwrap();
    queues.sort();
    assert_eq!(queues, ["a", "b"]);
}

pub(crate) async fn preclaimed_rows_are_not_hidden<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let messages = [held(job()), held(job())];
    let inserted = store.insert(&messages, Some(&preclaim(node, &messages[..1]))).await.unwrap();
    assert_eq!((inserted.rows, inserted.owned.len()), (2, 1));
    // The released row can be claimed at once; the other one is still hidden.
    assert_eq!(store.release_unknown(node, &[], None).await.unwrap(), 1);
    assert_eq!(ids(&store.take(node, 10).await), [messages[0].id]);
}

pub(crate) async fn timers_are_not_hidden<T: TestDb>(db: &T) {
    let store = db.jobs();
    let later = held(job().delay(Duration::from_millis(50)));
    let sent = send(&store, &[later]).await;
    eventually(Duration::from_secs(10), async || store.promote().await == 1).await;
    let node = store.node().await;
    assert_eq!(ids(&store.take(node, 1).await), sent);
}

/// Whatever statement inserts a batch, each row is hidden as its message says.
pub(crate) async fn in_batches_of_all_kinds<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    for others in [vec![], vec![message(job().id(JobId::new()))], vec![message(job().queue("other").delay(LATER))]] {
        let mut messages = vec![held(job()), message(job())];
        messages.extend(others);
        let inserted = store.insert(&messages, None).await.unwrap();
        assert_eq!(inserted.rows, messages.len() as u64);
        let free: Vec<JobId> =
            messages.iter().filter(|m| m.hidden_for.is_zero() && m.queue == "default").map(|m| m.id).collect();
        assert_eq!(ids(&store.take(node, 10).await), free);
        assert_eq!(ids(&take_all(&store, node).await), [messages[0].id]);
    }
}

/// The head start is over once the row was claimed.
pub(crate) async fn released_is_not_held<T: TestDb>(db: &T) {
    let store = db.jobs();
    send(&store, &[held(job())]).await;
    let node = store.node().await;
    let claimed = take_all(&store, node).await.remove(0);
    assert!(store.settle_one(node, claimed.fence(), Verdict::Release).await);
    assert_eq!(ids(&store.take(node, 1).await), [claimed.id]);
}

pub(crate) async fn a_hold_hides_nothing_from_people<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = send(&store, &[held(job())]).await;
    assert_eq!(store.state(sent[0]).await, Some(jobwright::admin::JobState::Waiting));
    assert_eq!(store.status().await.unwrap().queues[0].waiting, 1);
}
