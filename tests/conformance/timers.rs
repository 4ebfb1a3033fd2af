//! `promote_due`: from `timer_job` to `job` when timers are due.

use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::internal::engine::{Promoted, Verdict};

use crate::support::jobs::{LATER, job, jobs};
use crate::support::{Jobs, TestDb, eventually};

/// Sends timers that are due at once.
async fn due(store: &Jobs, queue: &str, count: usize) {
    let node = store.node().await;
    store.send_all(jobs(count).into_iter().map(|job| job.queue(queue))).await;
    for claimed in store.take_from(queue, node, count).await {
        assert!(store.settle_one(node, claimed.fence(), Verdict::Snooze(Duration::ZERO)).await);
    }
    assert_eq!(store.count(JobState::Timer).await, count);
}

pub(crate) async fn nothing_to_promote<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send(job()).await;
    assert_eq!(store.promote_due(10).await.unwrap(), Promoted::default());
}

pub(crate) async fn in_batches<T: TestDb>(db: &T) {
    let store = db.jobs();
    due(&store, "q", 7).await;
    for (expected, waiting) in [(3, 3), (3, 6), (1, 7), (0, 7)] {
        let promoted = store.promote_due(3).await.unwrap();
        assert_eq!(promoted.jobs, expected);
        assert_eq!(promoted.queues.len(), usize::from(expected > 0));
        assert_eq!(store.count(JobState::Waiting).await, waiting);
        assert_eq!(store.count(JobState::Timer).await, 7 - waiting, "none in both, none in neither");
    }
}

/// Timers that the limit leaves over are due now.
pub(crate) async fn next_is_now_when_more_is_due<T: TestDb>(db: &T) {
    let store = db.jobs();
    due(&store, "q", 3).await;
    store.send(job().delay(LATER)).await;
    assert_eq!(store.promote_due(2).await.unwrap().next, Some(Duration::ZERO));
    let next = store.promote_due(2).await.unwrap().next.unwrap();
    assert!(next > Duration::ZERO, "nothing more is due");
}

pub(crate) async fn next_is_the_soonest<T: TestDb>(db: &T) {
    let store = db.jobs();
    for (delay, soonest) in [(LATER * 2, LATER * 2), (LATER, LATER), (LATER * 3, LATER)] {
        store.send(job().delay(delay)).await;
        let promoted = store.promote_due(10).await.unwrap();
        assert_eq!(promoted.jobs, 0);
        let next = promoted.next.unwrap();
        assert!(next <= soonest && next + Duration::from_secs(60) > soonest, "{next:?} for {soonest:?}");
    }
}

pub(crate) async fn says_in_which_queues<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    for queue in ["a", "b", "a", "c"] {
        store.send(job().queue(queue)).await;
        let claimed = store.take_from(queue, node, 1).await.remove(0);
        assert!(store.settle_one(node, claimed.fence(), Verdict::Snooze(Duration::ZERO)).await);
    }
    store.send(job().queue("later").delay(LATER)).await;
    let mut promoted = store.promote_due(10).await.unwrap();
    promoted.queues.sort();
    assert_eq!((promoted.jobs, promoted.queues), (4, vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]));
}

pub(crate) async fn the_earliest_first<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    // Sent in the reverse order of their due dates.
    store.send_all(jobs(3)).await;
    let mut claimed = store.take(node, 3).await;
    claimed.reverse();
    for job in &claimed {
        let before = store.detail(job.id).await.summary.claimed_at.unwrap();
        assert!(store.settle_one(node, job.fence(), Verdict::Snooze(Duration::ZERO)).await);
        // A clock that counts milliseconds must have advanced before the next.
        let due = store.detail(job.id).await.summary.due_at.unwrap();
        assert!(due >= before);
        eventually(Duration::from_secs(5), async || {
            let (probe, running) = store.running(job_of_probe()).await;
            let now = store.detail(running.id).await.summary.claimed_at.unwrap();
            assert!(store.settle_one(probe, running.fence(), Verdict::Cancel).await);
            now > due
        })
        .await;
    }
    for job in claimed {
        assert_eq!(store.promote_due(1).await.unwrap().jobs, 1);
        assert_eq!(store.state(job.id).await, Some(JobState::Waiting));
    }
}

fn job_of_probe() -> jobwright::NewJob {
    jobwright::NewJob::json("probe", &())
}

/// With a real wait, however short: the timer starts no earlier than due, and soon after.
pub(crate) async fn not_before_their_time<T: TestDb>(db: &T) {
    let store = db.jobs();
    let delay = Duration::from_millis(600);
    let id = store.send(job().delay(delay)).await;
    let first = store.promote_due(10).await.unwrap();
    assert_eq!(first.jobs, 0);
    assert!(first.next.unwrap() <= delay);
    eventually(Duration::from_secs(10), async || store.promote().await == 1).await;
    assert_eq!(store.state(id).await, Some(JobState::Waiting));
    let node = store.node().await;
    let claimed = store.take_one(node).await;
    let at = store.detail(id).await.summary.claimed_at.unwrap();
    let waited = at.duration_since(claimed.created_at).unsigned_abs();
    assert!(waited >= delay, "ran {waited:?} after its flush");
}

/// A timer due a little later is not due.
pub(crate) async fn exactly_those_that_are_due<T: TestDb>(db: &T) {
    let store = db.jobs();
    loop {
        due(&store, "q", 1).await;
        let soon = store.send(job().delay(Duration::from_secs(2))).await;
        let due_at = store.detail(soon).await.summary.due_at.unwrap();
        let promoted = store.promote_due(10).await.unwrap();
        let (waiting, timers) = (store.count(JobState::Waiting).await, store.count(JobState::Timer).await);
        let state = store.state(soon).await;
        // If the machine took two seconds for this, it proves nothing.
        if jiff::Timestamp::now() < due_at {
            assert_eq!((promoted.jobs, waiting, timers, state), (1, 1, 1, Some(JobState::Timer)));
            let next = promoted.next.unwrap();
            assert!(!next.is_zero() && next <= Duration::from_secs(2), "{next:?}");
            return;
        }
        db.clear().await;
    }
}

/// A promoted job goes to the position of its `seq`, not to the end.
pub(crate) async fn promoted_jobs_keep_their_place<T: TestDb>(db: &T) {
    let store = db.jobs();
    due(&store, "q", 2).await;
    let later = store.send(job().queue("q")).await;
    store.promote().await;
    let node = store.node().await;
    let claimed = store.take_from("q", node, 3).await;
    assert!(claimed.is_sorted_by_key(|job| job.seq));
    assert_eq!(claimed[2].id, later);
}
