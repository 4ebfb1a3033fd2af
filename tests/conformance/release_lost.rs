//! `release_lost`: what becomes of the jobs of dead nodes.

use std::num::NonZeroU32;
use std::time::Duration;

use jobwright::admin::{JobFilter, JobState, Released};
use jobwright::internal::engine::Verdict;

use crate::conformance::suspects::take_suspect;
use crate::support::jobs::{LATER, job, jobs};
use crate::support::{Jobs, TestDb};

pub(crate) async fn nothing_is_lost_while_all_live<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job()).await;
    store.send_all(jobs(2)).await;
    assert_eq!(store.release_lost(10, None).await.unwrap(), Released::default());
    assert_eq!(store.complete(node, &[claimed.fence()]).await.unwrap(), [claimed.id]);
}

pub(crate) async fn a_lost_owner_costs_the_attempt<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job().max_attempts(5)).await;
    db.bury(node).await;
    assert_eq!(store.release_all_lost().await, (1, 0));
    let detail = store.detail(claimed.id).await;
    assert_eq!((detail.summary.state, detail.summary.attempt), (JobState::Waiting, 1));
    assert_eq!((detail.summary.owner, detail.summary.claimed_at), (None, None));
    assert_eq!((detail.summary.seq, detail.version), (claimed.seq, claimed.version));
    let [error] = &detail.errors[..] else { panic!("{:?}", detail.errors) };
    assert_eq!((error.attempt, error.node), (1, node.0));
    assert!(error.error.starts_with("owner lost"), "{:?}", error.error);
    assert_eq!(detail.summary.last_error.as_ref(), Some(&error.error));
    let other = store.node().await;
    assert_eq!(store.take_one(other).await.attempt, 2);
}

/// A job that kills its process ends as a dead letter, not in a loop.
pub(crate) async fn a_killer_ends_as_a_dead_letter<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job().max_attempts(3).header("a", "b")).await;
    for attempt in 1..=3 {
        let node = store.node().await;
        assert_eq!(store.take_one(node).await.attempt, attempt);
        db.bury(node).await;
        let expected = if attempt == 3 { (0, 1) } else { (1, 0) };
        assert_eq!(store.release_all_lost().await, expected);
    }
    let detail = store.detail(id).await;
    assert_eq!((detail.summary.state, detail.summary.attempt), (JobState::Dead, 3));
    assert!(detail.dead.unwrap().1.contains("owner lost"));
    assert_eq!(detail.errors.len(), 3);
    assert_eq!(detail.headers["a"], "b");
}

pub(crate) async fn in_batches<T: TestDb>(db: &T) {
    let store = db.jobs();
    store
        .send_all(jobs(10).into_iter().enumerate().map(|(n, job)| if n % 2 == 0 { job.max_attempts(1) } else { job }))
        .await;
    let node = store.node().await;
    assert_eq!(store.take(node, 10).await.len(), 10);
    db.bury(node).await;
    let mut waiting = 0;
    let mut dead = 0;
    for expected in [4, 4, 2, 0] {
        let released = store.release_lost(4, None).await.unwrap();
        assert_eq!(released.total(), expected);
        waiting += released.waiting;
        dead += released.dead;
        assert_eq!(store.count(JobState::Waiting).await as u64, waiting);
        assert_eq!(store.count(JobState::Dead).await as u64, dead);
        assert_eq!(store.count(JobState::Running).await as u64, 10 - waiting - dead);
    }
    assert_eq!((waiting, dead), (5, 5));
}

/// A dead node stays listed as long as it owns something; then it is forgotten.
pub(crate) async fn dead_nodes_are_forgotten_when_they_own_nothing<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(3)).await;
    let dead = store.node().await;
    let alive = store.node().await;
    store.take(dead, 3).await;
    db.bury(dead).await;
    for held in [1, 0] {
        store.release_lost(2, None).await.unwrap();
        assert_eq!(store.count(JobState::Running).await, held);
    }
    let nodes: Vec<_> = store.status().await.unwrap().nodes.iter().map(|node| node.id).collect();
    assert_eq!(nodes, [alive]);
}

pub(crate) async fn the_living_keep_theirs<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(6)).await;
    let dead = store.node().await;
    let alive = store.node().await;
    let kept = store.take(alive, 3).await;
    let lost = store.take(dead, 3).await;
    db.bury(dead).await;
    assert_eq!(store.release_all_lost().await, (3, 0));
    for job in lost {
        assert_eq!(store.state(job.id).await, Some(JobState::Waiting));
    }
    for job in kept {
        assert_eq!(store.complete(alive, &[job.fence()]).await.unwrap(), [job.id]);
    }
}

pub(crate) async fn several_dead_nodes<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(9)).await;
    for _ in 0..3 {
        let node = store.node().await;
        assert_eq!(store.take(node, 3).await.len(), 3);
        db.bury(node).await;
    }
    assert_eq!(store.release_all_lost().await, (9, 0));
    assert_eq!(store.release_all_lost().await, (0, 0), "nothing is released twice");
    assert_eq!(store.status().await.unwrap().nodes.len(), 0);
}

pub(crate) async fn the_record_stays_bounded<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job().max_attempts(100)).await;
    for n in 1..=12_u32 {
        let node = store.node().await;
        let claimed = store.take_one(node).await;
        if n % 2 == 0 {
            store.fail(node, &claimed, Duration::ZERO, "failed").await;
            store.promote().await;
        } else {
            db.bury(node).await;
            assert_eq!(store.release_all_lost().await, (1, 0));
        }
    }
    let errors = store.detail(id).await.errors;
    assert_eq!(errors.iter().map(|error| error.attempt).collect::<Vec<_>>(), (3..=12).collect::<Vec<_>>());
}

const TWICE: Option<NonZeroU32> = NonZeroU32::new(2);

/// Claims a job, alone if it is a suspect, and makes its node die. Returns how many became dead letters.
async fn kills<T: TestDb>(db: &T, store: &Jobs) -> u64 {
    let node = store.node().await;
    if take_suspect(store, node).await.is_none() {
        store.take_one(node).await;
    }
    db.bury(node).await;
    store.release_lost(10, TWICE).await.unwrap().dead
}

/// The job is quarantined whatever attempts remain. Its first death makes it a suspect, and proves nothing.
pub(crate) async fn a_killer_is_quarantined<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job().max_attempts(100)).await;
    assert_eq!((kills(db, &store).await, kills(db, &store).await), (0, 0));
    // Other failures neither count nor help.
    let node = store.node().await;
    let claimed = take_suspect(&store, node).await.unwrap();
    store.fail(node, &claimed, Duration::ZERO, "failed").await;
    store.promote().await;
    assert_eq!((kills(db, &store).await, kills(db, &store).await), (0, 1));
    let detail = store.detail(id).await;
    assert_eq!((detail.summary.state, detail.summary.attempt), (JobState::Dead, 5));
    assert_eq!(detail.dead.unwrap().1, "quarantined: its process died 2 times while it ran alone");
    assert_eq!(detail.errors.len(), 5);
}

/// An operator looked at it and requeued it: earlier deaths no longer count.
pub(crate) async fn a_retried_job_starts_with_no_deaths<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job().max_attempts(100)).await;
    for _ in 0..2 {
        assert_eq!([kills(db, &store).await, kills(db, &store).await, kills(db, &store).await], [0, 0, 1]);
        store.retry(&JobFilter::ids([id]), false).await.unwrap();
    }
    assert_eq!(store.detail(id).await.errors.len(), 6, "nothing is forgotten");
}

pub(crate) async fn the_last_death_is_the_reason<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job().max_attempts(3)).await;
    assert_eq!([kills(db, &store).await, kills(db, &store).await, kills(db, &store).await], [0, 0, 1]);
    assert!(store.detail(id).await.dead.unwrap().1.starts_with("quarantined"));
    let id = store.send(job().max_attempts(1)).await;
    assert_eq!(kills(db, &store).await, 1);
    assert_eq!(store.detail(id).await.dead.unwrap().1, "owner lost");
}

/// Only running jobs are lost, not those that a dead node settled before.
pub(crate) async fn jobs_settled_before_a_death_are_not_lost<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(3)).await;
    let node = store.node().await;
    let claimed = store.take(node, 3).await;
    store.fail(node, &claimed[0], LATER, "error").await;
    assert!(store.settle_one(node, claimed[1].fence(), Verdict::Dead).await);
    assert!(store.settle_one(node, claimed[2].fence(), Verdict::Release).await);
    db.bury(node).await;
    assert_eq!(store.release_all_lost().await, (0, 0));
    assert_eq!(store.detail(claimed[0].id).await.errors.len(), 1);
}
