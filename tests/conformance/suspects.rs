//! Suspects: jobs whose process died while they ran. They run alone from then on, and only a death while they did is held against them.

use std::num::NonZeroU32;
use std::time::Duration;

use jobwright::admin::{JobFilter, JobState, Released};
use jobwright::headers::{EVENT_QUEUE, REPLY_QUEUE, REPLY_TO};
use jobwright::internal::Fence;
use jobwright::internal::engine::{ClaimRequest, Verdict};
use jobwright::{Job, JobId, NodeId};

use crate::support::jobs::{claim_number, ids, job, jobs};
use crate::support::{Jobs, TestDb};

pub(crate) const TWICE: Option<NonZeroU32> = NonZeroU32::new(2);

/// Claims the best suspect of the queue `default`, if there is one.
pub(crate) async fn take_suspect(store: &Jobs, node: NodeId) -> Option<Job> {
    let request = ClaimRequest::new(node, claim_number(), "default", 1).suspects();
    store.claim(&request).await.unwrap().jobs.pop()
}

/// Returns all suspects that wait in the queue `default`, best first.
pub(crate) async fn suspects(store: &Jobs) -> Vec<JobId> {
    let found = store.suspects(&["default".to_owned()], Some(&["kind".to_owned()]), 100).await.unwrap();
    found.into_iter().map(|suspect| suspect.id).collect()
}

/// Acquits suspects, whose rows nothing has locked. Returns their queues.
pub(crate) async fn acquit(store: &Jobs, ids: &[JobId]) -> Vec<String> {
    let acquitted = store.acquit(ids).await.unwrap();
    assert_eq!(acquitted.locked, 0);
    acquitted.queues
}

/// Claims jobs with a node, which then dies.
pub(crate) async fn dies_with<T: TestDb>(db: &T, store: &Jobs, count: usize) -> Released {
    let node = store.node().await;
    assert_eq!(store.take(node, count).await.len(), count);
    db.bury(node).await;
    store.release_lost(100, TWICE).await.unwrap()
}

/// Claims a suspect with a node, which then dies.
async fn dies_alone_with<T: TestDb>(db: &T, store: &Jobs, expected: JobId) -> Released {
    let node = store.node().await;
    assert_eq!(take_suspect(store, node).await.map(|job| job.id), Some(expected));
    db.bury(node).await;
    store.release_lost(100, TWICE).await.unwrap()
}

/// Sends jobs and makes suspects of them.
pub(crate) async fn suspected<T: TestDb>(db: &T, store: &Jobs, count: usize) -> Vec<JobId> {
    let sent = store.send_all(jobs(count).into_iter().map(|job| job.max_attempts(100))).await;
    let released = dies_with(db, store, count).await;
    assert_eq!((released.waiting, released.dead), (count as u64, 0));
    sent
}

pub(crate) async fn no_other_claim_takes_them<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = suspected(db, &store, 2).await;
    let innocent = store.send(job()).await;
    assert_eq!(suspects(&store).await, sent);
    assert_eq!(store.count(JobState::Blocked).await, 2);
    assert_eq!(store.detail(sent[0]).await.blocked_on.as_deref(), Some("alone"));
    let node = store.node().await;
    assert_eq!(ids(&store.take(node, 10).await), [innocent]);
    let version = store.detail(sent[0]).await.version;
    let delivered = store.claim_delivered(node, claim_number(), &[Fence::new(sent[0], version)], None).await.unwrap();
    assert!(delivered.is_empty());
    // A claim of suspects takes them and nothing else, as many as are asked for, and best first.
    store.send(job().priority(9)).await;
    for expected in sent {
        assert_eq!(take_suspect(&store, node).await.map(|job| (job.id, job.attempt)), Some((expected, 2)));
    }
    assert!(take_suspect(&store, node).await.is_none() && suspects(&store).await.is_empty());
}

pub(crate) async fn only_of_the_queues_and_kinds_that_are_asked_for<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = suspected(db, &store, 1).await;
    let names = |name: &str| [name.to_owned()];
    assert!(store.suspects(&names("other"), None, 9).await.unwrap().is_empty());
    assert!(store.suspects(&names("default"), Some(&names("other")), 9).await.unwrap().is_empty());
    assert!(store.suspects(&names("default"), None, 0).await.unwrap().is_empty());
    assert_eq!(store.suspects(&names("default"), None, 9).await.unwrap().len(), 1);
    let node = store.node().await;
    let kinds = names("other");
    let request = ClaimRequest::new(node, claim_number(), "default", 1).kinds(&kinds).suspects();
    assert!(store.claim(&request).await.unwrap().jobs.is_empty());
    let request = ClaimRequest::new(node, claim_number(), "other", 1).suspects();
    assert!(store.claim(&request).await.unwrap().jobs.is_empty());
    assert_eq!(suspects(&store).await, sent);
}

/// However often its process dies beside a killer, or in a way that nobody knows, nothing is proven.
pub(crate) async fn deaths_in_company_prove_nothing<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = suspected(db, &store, 2).await;
    for _ in 0..4 {
        assert_eq!(acquit(&store, &sent).await, ["default"]);
        let released = dies_with(db, &store, 2).await;
        assert_eq!((released.waiting, released.dead), (2, 0));
    }
    let detail = store.detail(sent[0]).await;
    assert_eq!((detail.summary.attempt, detail.errors.len()), (5, 5));
    assert!(detail.errors.iter().all(|error| !error.error.contains("alone")), "{:?}", detail.errors);
}

/// A job keeps its proofs when it is acquitted. If fewer are asked for since then, a death in company must not bury it.
pub(crate) async fn earlier_proofs_make_none_of_a_death_in_company<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = suspected(db, &store, 2).await;
    for _ in 0..2 {
        let node = store.node().await;
        assert_eq!(take_suspect(&store, node).await.map(|job| job.id), Some(sent[0]));
        db.bury(node).await;
        let released = store.release_lost(100, NonZeroU32::new(3)).await.unwrap();
        assert_eq!((released.waiting, released.dead), (1, 0));
    }
    assert_eq!(acquit(&store, &sent).await, ["default"]);
    let released = dies_with(db, &store, 2).await;
    assert_eq!((released.waiting, released.dead), (2, 0));
    // The next death while it runs alone is one proof more than are asked for.
    assert_eq!(dies_alone_with(db, &store, sent[0]).await.dead, 1);
    let reason = store.detail(sent[0]).await.dead.unwrap().1;
    assert_eq!(reason, "quarantined: its process died 3 times while it ran alone");
}

/// The killer is proven, and its neighbour, who died with it, is not.
pub(crate) async fn a_job_whose_process_dies_while_it_runs_alone_is_quarantined<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = suspected(db, &store, 2).await;
    assert_eq!(dies_alone_with(db, &store, sent[0]).await.dead, 0);
    // It is a suspect again.
    assert_eq!(dies_alone_with(db, &store, sent[0]).await.dead, 1);
    let detail = store.detail(sent[0]).await;
    assert_eq!(detail.dead.unwrap().1, "quarantined: its process died 2 times while it ran alone");
    assert_eq!(detail.summary.attempt, 3);
    let last = detail.errors.last().unwrap();
    assert!(last.error.starts_with("owner lost") && last.error.ends_with("while this job ran alone"), "{last:?}");

    let node = store.node().await;
    let innocent = take_suspect(&store, node).await.unwrap();
    assert_eq!((innocent.id, innocent.attempt), (sent[1], 2));
    store.finish(node, &innocent).await;
    assert_eq!(store.state(sent[1]).await, None);
}

/// An operator retries a quarantined job: earlier proofs no longer count, and it runs beside others until its process dies again.
pub(crate) async fn a_retried_suspect_is_no_suspect<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = suspected(db, &store, 1).await;
    for _ in 0..2 {
        assert_eq!(dies_alone_with(db, &store, sent[0]).await.dead, 0);
        assert_eq!(dies_alone_with(db, &store, sent[0]).await.dead, 1);
        store.retry(&JobFilter::ids(sent.clone()), false).await.unwrap();
        assert_eq!(store.state(sent[0]).await, Some(JobState::Waiting));
        assert_eq!(dies_with(db, &store, 1).await.waiting, 1);
    }
}

/// Its process lives, so it is no suspect any more.
pub(crate) async fn an_end_of_the_attempt_clears_it<T: TestDb>(db: &T) {
    let store = db.jobs();
    // The last one can't be recorded, and the job is put off.
    for verdict in [Some(Verdict::Retry(Duration::ZERO)), Some(Verdict::Snooze(Duration::ZERO)), None] {
        let sent = suspected(db, &store, 1).await;
        let node = store.node().await;
        let claimed = take_suspect(&store, node).await.unwrap();
        match verdict {
            Some(verdict) => assert!(store.settle_one(node, claimed.fence(), verdict).await),
            None => store.put_off(node, claimed.fence(), Duration::ZERO).await.unwrap(),
        }
        store.promote().await;
        assert_eq!(store.state(sent[0]).await, Some(JobState::Waiting));
        let again = store.take_one(node).await;
        assert_eq!(again.id, sent[0]);
        store.finish(node, &again).await;
    }
}

/// A graceful stop says nothing about it.
pub(crate) async fn given_back_it_is_a_suspect_again<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = suspected(db, &store, 1).await;
    for way in ["a stop", "a lost answer", "a node that does not know it", "a lost lease"] {
        let node = store.node().await;
        let number = claim_number();
        let claim = ClaimRequest::new(node, number, "default", 1).suspects();
        let claimed = store.claim(&claim).await.unwrap().jobs.pop().unwrap();
        match way {
            "a stop" => assert!(store.settle_one(node, claimed.fence(), Verdict::Release).await),
            "a lost answer" => assert_eq!(store.release_claimed(node, number, &sent).await.unwrap(), 1),
            "a node that does not know it" => assert_eq!(store.release_unknown(node, &[], None).await.unwrap(), 1),
            _ => assert_eq!(store.retire_node(node).await.unwrap(), 1),
        }
        let other = store.node().await;
        assert!(store.take(other, 1).await.is_empty(), "{way}");
        assert_eq!(suspects(&store).await, sent, "{way}");
        assert_eq!(store.detail(sent[0]).await.summary.attempt, 1, "{way}");
    }
}

/// An ordinary job that is given back, or whose node stops in good order, is no suspect.
pub(crate) async fn released_jobs_are_no_suspects<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = store.send_all(jobs(2)).await;
    let node = store.node().await;
    let claimed = store.take(node, 2).await;
    assert!(store.settle_one(node, claimed[0].fence(), Verdict::Release).await);
    assert_eq!(store.retire_node(node).await.unwrap(), 1);
    assert_eq!(store.release_lost(100, TWICE).await.unwrap(), Released::default());
    let other = store.node().await;
    assert_eq!(ids(&store.take(other, 10).await), sent);
}

/// Where nothing is quarantined, nothing is suspected.
pub(crate) async fn without_quarantine_there_are_none<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = store.send_all(jobs(2)).await;
    let node = store.node().await;
    store.take(node, 2).await;
    db.bury(node).await;
    assert_eq!(store.release_all_lost().await, (2, 0));
    let other = store.node().await;
    assert_eq!(ids(&store.take(other, 10).await), sent);
}

/// It waits like any other job, or goes on beside others, and its death is no proof.
pub(crate) async fn acquitted<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = suspected(db, &store, 1).await;
    for _ in 0..3 {
        let node = store.node().await;
        take_suspect(&store, node).await.unwrap();
        assert_eq!(acquit(&store, &sent).await, ["default"]);
        assert!(acquit(&store, &sent).await.is_empty());
        assert_eq!(store.state(sent[0]).await, Some(JobState::Running));
        db.bury(node).await;
        assert_eq!(store.release_lost(100, TWICE).await.unwrap().waiting, 1);
    }
    assert_eq!(acquit(&store, &sent).await, ["default"]);
    let node = store.node().await;
    assert_eq!(store.take_one(node).await.id, sent[0]);
    assert!(acquit(&store, &sent).await.is_empty(), "it is no suspect");
}

/// No handler runs an event or a reply, so no node would ever claim it as a suspect. Another relay publishes it.
pub(crate) async fn messages_of_a_dead_relay_are_none<T: TestDb>(db: &T) {
    let store = db.jobs();
    for queue in [EVENT_QUEUE, REPLY_QUEUE] {
        let id = store.send(job().queue(queue).header(REPLY_TO, "answers")).await;
        let relay = store.node().await;
        assert_eq!(ids(&store.take_from(queue, relay, 1).await), [id]);
        db.bury(relay).await;
        assert_eq!(store.release_lost(100, TWICE).await.unwrap().waiting, 1);
        let other = store.node().await;
        assert_eq!(ids(&store.take_from(queue, other, 1).await), [id], "{queue}");
    }
}
