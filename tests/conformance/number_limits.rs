//! Numbers that only years of use would reach.

use std::time::Duration;

use jobwright::admin::{JobFilter, JobState, Page};
use jobwright::internal::engine::{ClaimRequest, ScanRange, Verdict};

use crate::support::TestDb;
use crate::support::jobs::{LATER, claim_number, cursor, ids, job, jobs};

/// After more than 2^31 jobs everything still works: every method that takes or returns a `seq`.
pub(crate) async fn seq_beyond_32_bits<T: TestDb>(db: &T) {
    let store = db.jobs();
    let old = store.send(job()).await;
    db.restart_sequence(5_000_000_000).await;
    let sent = store.send_all(jobs(3)).await;
    let later = store.send(job().delay(LATER)).await;
    let all = store.all().await;
    assert_eq!(all.iter().map(|row| row.id).collect::<Vec<_>>(), [&[old], &sent[..], &[later]].concat());
    assert_eq!(all[1].seq, 5_000_000_000);

    let page = Page::new(10).after(all[1].seq);
    assert_eq!(store.list(&JobFilter::default(), &page).await.unwrap().len(), 3);

    let node = store.node().await;
    let first = store.take(node, 2).await;
    let after = [cursor(&first[1])];
    let request = ClaimRequest::new(node, claim_number(), "default", 10).range(ScanRange::after(&after));
    let rest = store.claim(&request).await.unwrap().jobs;
    assert_eq!(rest.len(), 2);
    store.fail(node, &first[1], Duration::ZERO, "error").await;
    assert_eq!(store.promote().await, 1);
    let again = store.take_one(node).await;
    assert_eq!((again.id, again.seq), (first[1].id, 5_000_000_000));
    let owned = store.send_owned(job(), node).await;
    assert!(store.detail(owned.id).await.summary.seq > 5_000_000_000);
    assert!(store.settle_one(node, again.fence(), Verdict::Dead).await);
    store.retry(&JobFilter::default(), false).await.unwrap();
    assert_eq!(store.detail(again.id).await.summary.seq, 5_000_000_000);
}

/// The last of a billion attempts.
pub(crate) async fn as_many_attempts_as_allowed<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job().max_attempts(1_000_000_000)).await;
    db.set_counters(id, 999_999_998, 999_999_998).await;
    let node = store.node().await;
    let claimed = store.take_one(node).await;
    assert_eq!((claimed.attempt, claimed.max_attempts), (999_999_999, 1_000_000_000));
    store.fail(node, &claimed, Duration::ZERO, "error").await;
    assert_eq!(store.detail(id).await.errors[0].attempt, 999_999_999);
    store.promote().await;
    let last = store.take_one(node).await;
    assert_eq!(last.attempt, 1_000_000_000);
    store.fail(node, &last, Duration::ZERO, "error").await;
    assert_eq!(store.state(id).await, Some(JobState::Dead));
}

/// A job with an impossible count of attempts becomes a dead letter and blocks nothing else.
pub(crate) async fn more_attempts_than_allowed<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = store.send_all(jobs(2)).await;
    db.set_counters(sent[0], 7, u32::try_from(i32::MAX).unwrap() - 1).await;
    let node = store.node().await;
    let claimed = store.take(node, 2).await;
    assert_eq!(ids(&claimed), sent);
    assert_eq!(claimed[0].attempt, u32::try_from(i32::MAX).unwrap());
    store.fail(node, &claimed[0], Duration::ZERO, "error").await;
    assert_eq!(store.state(sent[0]).await, Some(JobState::Dead));
    store.retry(&JobFilter::ids([sent[0]]), false).await.unwrap();
    assert_eq!(store.take_one(node).await.attempt, 1);
}
