//! Jobs whose time to live is over: dead letters with the reason `expired`, which hold nothing any more.

use std::time::Duration;

use jobwright::NewJob;
use jobwright::admin::{JobFilter, JobState};
use jobwright::internal::engine::{Expired, Verdict};

use crate::conformance::groups::sound;
use crate::support::jobs::{LATER, hand_out_number, ids, job, jobs};
use crate::support::{Jobs, TestDb, eventually};

const SHORT: Duration = Duration::from_millis(1);

/// Expires jobs until none of them is seen waiting.
async fn all_expire(store: &Jobs, limit: usize) -> u64 {
    let mut gone = 0;
    eventually(Duration::from_secs(5), async || {
        let expired = store.expire_jobs(limit).await.unwrap();
        gone += expired.jobs;
        expired.next.is_none()
    })
    .await;
    gone
}

pub(crate) async fn nothing_expires_without_a_time_to_live<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all([job(), job().delay(LATER), job().exclusive("g")]).await;
    assert_eq!(store.expire_jobs(10).await.unwrap(), Expired::default());
}

/// An expired job becomes a dead letter wherever it waits, with the reason and its time to live.
pub(crate) async fn a_waiting_job_expires<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let sent = store
        .send_all([
            job().ttl(SHORT),
            job().ttl(SHORT).exclusive("g"),
            job().ttl(SHORT).at(jiff::Timestamp::now() + LATER),
            job().ttl(LATER),
        ])
        .await;
    let mut gone = 0;
    eventually(Duration::from_secs(5), async || {
        gone += store.expire_jobs(10).await.unwrap().jobs;
        gone == 3
    })
    .await;
    for id in &sent[..3] {
        let detail = store.detail(*id).await;
        assert_eq!(detail.summary.state, JobState::Dead);
        assert_eq!(detail.dead.as_ref().map(|(_, reason)| reason.as_str()), Some("expired"));
        assert_eq!((detail.summary.attempt, detail.options.ttl), (0, Some(SHORT)));
    }
    store.admit_all().await;
    assert_eq!(ids(&store.take(node, 10).await), sent[3..]);
    sound(&store).await;
}

pub(crate) async fn next_is_the_soonest_and_now_when_there_is_more<T: TestDb>(db: &T) {
    let store = db.jobs();
    for (job, soonest) in [
        (job().ttl(LATER * 4).delay(LATER), LATER * 4),
        (job().ttl(LATER * 3).exclusive("g"), LATER * 3),
        (job().ttl(LATER * 2), LATER * 2),
        (job().ttl(LATER * 5), LATER * 2),
    ] {
        store.send(job).await;
        let Expired { jobs, next } = store.expire_jobs(10).await.unwrap();
        let next = next.unwrap();
        assert!(jobs == 0 && next <= soonest && next + Duration::from_secs(600) > soonest, "{next:?} for {soonest:?}");
    }
    store.send_all(jobs(3).into_iter().map(|job| job.ttl(SHORT))).await;
    eventually(Duration::from_secs(5), async || {
        let expired = store.expire_jobs(1).await.unwrap();
        assert!(expired.jobs <= 1);
        assert!(expired.jobs == 0 || expired.next == Some(Duration::ZERO));
        store.count(JobState::Dead).await == 3
    })
    .await;
}

/// A job that was claimed in time runs, however late it ends; a retry of it does not start.
pub(crate) async fn a_running_job_outlives_its_time_to_live<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let life = Duration::from_millis(1500);
    let mut sent = Vec::new();
    let mut running = Vec::new();
    // On a busy machine some of them expire before they are claimed.
    eventually(Duration::from_secs(60), async || {
        sent = store.send_all(jobs(3).into_iter().map(|job| job.ttl(life).queue("q"))).await;
        running = store.take_from("q", node, 2).await;
        let handed = store.hand_out("q", 1, LATER, hand_out_number()).await.unwrap();
        running.extend(handed);
        running.len() == 3
    })
    .await;
    let probe = store.send(job().ttl(life)).await;
    eventually(Duration::from_secs(5), async || {
        store.expire_jobs(10).await.unwrap();
        store.state(probe).await == Some(JobState::Dead)
    })
    .await;
    assert_eq!(store.state(running[0].id).await, Some(JobState::Running));
    assert_eq!(store.state(running[1].id).await, Some(JobState::Running));
    assert_eq!(store.state(running[2].id).await, Some(JobState::External));
    store.finish(node, &running[0]).await;
    assert!(store.settle_one(node, running[1].fence(), Verdict::Retry(Duration::ZERO)).await);
    assert_eq!(store.expire_jobs(10).await.unwrap().jobs, 1, "it does not start again");
    assert_eq!(store.state(running[1].id).await, Some(JobState::Dead));
    assert_eq!(store.detail(running[1].id).await.summary.attempt, 1);
    assert_eq!(store.state(running[2].id).await, Some(JobState::External));
}

/// When an operator requeues it, its time to live begins again.
pub(crate) async fn requeued_it_lives_as_long_again<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let id = store.send(job().ttl(SHORT)).await;
    all_expire(&store, 10).await;
    store.retry(&JobFilter::ids([id]), false).await.unwrap();
    assert_eq!(all_expire(&store, 10).await, 1, "for a millisecond");
    // As if its time to live had been long.
    let other = store.send(job().ttl(LATER)).await;
    let claimed = store.take_one(node).await;
    assert_eq!(claimed.id, other);
    assert!(store.settle_one(node, claimed.fence(), Verdict::Dead).await);
    let before = store.detail(other).await.options.expires.unwrap();
    eventually(Duration::from_secs(5), async || {
        store.retry(&JobFilter::ids([other]), false).await.unwrap();
        let claimed = store.take_one(node).await;
        assert!(store.settle_one(node, claimed.fence(), Verdict::Dead).await);
        store.detail(other).await.options.expires.unwrap() > before
    })
    .await;
}

/// An expired job frees its group, unless it is ordered and had begun.
pub(crate) async fn an_expired_job_frees_its_group<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    // Admitted, and never claimed.
    let life = Duration::from_millis(500);
    let [first, second] = store.send_all([job().exclusive("g").ttl(life), job().exclusive("g")]).await[..] else {
        panic!()
    };
    store.admit_all().await;
    all_expire(&store, 10).await;
    assert_eq!(store.state(first).await, Some(JobState::Dead));
    store.admit_all().await;
    let claimed = store.take_one(node).await;
    assert_eq!(claimed.id, second);
    store.finish(node, &claimed).await;
    sound(&store).await;

    let next = |ttl: Option<Duration>| {
        let job = NewJob::json("kind", &()).ordered("o");
        ttl.map_or(job.clone(), |ttl| job.ttl(ttl))
    };
    let [blocked, behind] = store.send_all([next(Some(SHORT)), next(None)]).await[..] else { panic!() };
    all_expire(&store, 10).await;
    assert_eq!(store.state(blocked).await, Some(JobState::Dead));
    store.admit_all().await;
    assert_eq!(store.take_one(node).await.id, behind, "one that never held the group holds up nobody");
    sound(&store).await;
}

/// Two concurrent calls expire different jobs.
pub(crate) async fn lookers_share_without_overlap<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(200).into_iter().map(|job| job.ttl(SHORT))).await;
    let other = Jobs(jobwright::Store::engine(&db.reopen().await));
    let (a, b) = tokio::join!(all_expire(&store, 30), all_expire(&other, 30));
    assert_eq!(a + b, 200);
    assert_eq!(store.count(JobState::Dead).await, 200);
}
