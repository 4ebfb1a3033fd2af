//! Exclusive groups: no two jobs of one run at the same time, and their order is kept.

use std::time::Duration;

use jobwright::admin::{JobFilter, JobState};
use jobwright::internal::engine::Verdict;

use crate::support::jobs::{LATER, hand_out_number, ids, job, jobs, set, with_version};
use crate::support::{Jobs, TestDb};

/// Asserts that the permits are consistent.
pub(crate) async fn sound(store: &Jobs) {
    assert_eq!(store.permit_faults().await.unwrap(), Vec::<String>::new());
}

pub(crate) async fn one_at_a_time_in_order<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let sent = store.send_all(jobs(3).into_iter().map(|job| job.exclusive("order-1"))).await;
    assert!(store.take(node, 10).await.is_empty(), "nothing starts before it was admitted");
    assert_eq!(store.state(sent[0]).await, Some(JobState::Blocked));
    for expected in sent {
        assert_eq!(store.admit_all().await, 1);
        let claimed = store.take(node, 10).await;
        assert_eq!(ids(&claimed), [expected]);
        assert!(claimed[0].admitted);
        assert_eq!(claimed[0].options.group.as_deref(), Some("order-1"));
        assert_eq!(claimed[0].attempt, 1, "waiting cost nothing");
        assert_eq!(store.admit_all().await, 0, "the group is taken");
        sound(&store).await;
        store.finish(node, &claimed[0]).await;
    }
    assert_eq!(store.admit_all().await, 0);
    sound(&store).await;
}

pub(crate) async fn groups_do_not_wait_for_each_other<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let sent =
        store.send_all(jobs(6).into_iter().enumerate().map(|(n, job)| job.exclusive(format!("g{}", n % 3)))).await;
    let plain = store.send(job()).await;
    assert_eq!(store.admit_all().await, 3);
    let claimed = store.take(node, 10).await;
    assert_eq!(ids(&claimed), [sent[0], sent[1], sent[2], plain]);
    sound(&store).await;
}

/// A group spans all queues, and higher priorities go first in it.
pub(crate) async fn over_queues_and_by_priority<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let low = store.send(job().exclusive("g")).await;
    let high = store.send(job().exclusive("g").queue("other").priority(5)).await;
    assert_eq!(store.admit_all().await, 1);
    assert!(store.take(node, 10).await.is_empty());
    let claimed = store.take_from("other", node, 10).await;
    assert_eq!(ids(&claimed), [high]);
    store.finish(node, &claimed[0]).await;
    assert_eq!(store.admit_all().await, 1);
    assert_eq!(ids(&store.take(node, 10).await), [low]);
}

/// While a job waits for its next attempt, the others pass it; then it gets its turn again.
pub(crate) async fn a_failure_lets_others_pass<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let [first, second] = store.send_all(jobs(2).into_iter().map(|job| job.exclusive("g"))).await[..] else { panic!() };
    store.admit_all().await;
    let claimed = store.take_one(node).await;
    assert_eq!(claimed.id, first);
    store.fail(node, &claimed, Duration::ZERO, "oh").await;
    store.admit_all().await;
    let passing = store.take_one(node).await;
    assert_eq!(passing.id, second);
    assert!(store.promote_due(10).await.unwrap().blocked);
    assert_eq!(store.state(first).await, Some(JobState::Blocked));
    assert_eq!(store.admit_all().await, 0);
    store.finish(node, &passing).await;
    store.admit_all().await;
    let again = store.take_one(node).await;
    assert_eq!((again.id, again.attempt), (first, 2));
    sound(&store).await;
}

/// An ordered job holds its group while it waits for its next attempt, and as a dead letter.
pub(crate) async fn a_failure_of_an_ordered_job_holds_the_group<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let sent = store.send_all(jobs(2).into_iter().map(|job| job.ordered("g").max_attempts(2))).await;
    store.admit_all().await;
    let claimed = store.take_one(node).await;
    store.fail(node, &claimed, Duration::ZERO, "oh").await;
    assert_eq!(store.admit_all().await, 0, "the second waits for the first");
    store.promote().await;
    assert_eq!(store.admit_all().await, 1);
    let again = store.take_one(node).await;
    assert_eq!(again.id, sent[0]);
    store.fail(node, &again, Duration::ZERO, "again").await;
    assert_eq!(store.state(sent[0]).await, Some(JobState::Dead));
    assert_eq!(store.admit_all().await, 0);
    sound(&store).await;

    // Requeued, it goes first; then the other one follows.
    store.retry(&JobFilter::ids([sent[0]]), false).await.unwrap();
    assert_eq!(store.admit_all().await, 1);
    let last = store.take_one(node).await;
    assert_eq!(last.id, sent[0]);
    store.finish(node, &last).await;
    assert_eq!(store.admit_all().await, 1);
    assert_eq!(store.take_one(node).await.id, sent[1]);
    sound(&store).await;
}

/// The job that holds its group continues when it is due, even if one of higher priority came meanwhile.
pub(crate) async fn an_ordered_job_goes_on_before_better_ones<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let first = store.send(job().ordered("g")).await;
    store.admit_all().await;
    let claimed = store.take_one(node).await;
    store.fail(node, &claimed, Duration::ZERO, "oh").await;
    let better = store.send(job().ordered("g").priority(9)).await;
    assert_eq!(store.admit_all().await, 0);
    store.promote().await;
    assert_eq!(store.admit_all().await, 1);
    let again = store.take_one(node).await;
    assert_eq!(again.id, first);
    store.finish(node, &again).await;
    assert_eq!(store.admit_all().await, 1);
    assert_eq!(store.take_one(node).await.id, better);
    sound(&store).await;
}

/// Any removal of the job frees its group: here it is an operator's.
pub(crate) async fn a_deleted_job_frees_its_group<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    for (n, ordered) in [false, true].into_iter().enumerate() {
        let group = format!("g{n}");
        let make =
            || if ordered { job().ordered(&group).max_attempts(1) } else { job().exclusive(&group).max_attempts(1) };
        let [first, second, third] = store.send_all([make(), make(), make()]).await[..] else { panic!() };
        store.admit_all().await;
        let claimed = store.take_one(node).await;
        // Running, a dead letter, and blocked.
        store.fail(node, &claimed, LATER, "oh").await;
        assert_eq!(store.delete(&JobFilter::ids([first]), false).await.unwrap().total(), 1);
        store.admit_all().await;
        let claimed = store.take_one(node).await;
        assert_eq!(claimed.id, second);
        assert_eq!(store.cancel(&JobFilter::ids([second]), false).await.unwrap().total(), 1);
        assert_eq!(store.handlers_ended(node, &[claimed.fence()]).await.unwrap(), 1);
        assert_eq!(store.admit_all().await, 1);
        assert_eq!(store.cancel(&JobFilter::ids([third]), false).await.unwrap().total(), 1);
        sound(&store).await;
        assert!(store.all().await.is_empty());
    }
}

/// The group is held until the dead owner's job was released, run again and done: never by two.
pub(crate) async fn a_dead_owner_does_not_free_the_group<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = store.send_all(jobs(2).into_iter().map(|job| job.exclusive("g"))).await;
    let dying = store.node().await;
    store.admit_all().await;
    let lost = store.take_one(dying).await;
    db.bury(dying).await;
    assert_eq!(store.admit_all().await, 0);
    assert_eq!(store.release_lost(10, None).await.unwrap().waiting, 1);
    assert_eq!(store.admit_all().await, 0, "the released one holds its group");
    let node = store.node().await;
    let again = store.take(node, 10).await;
    assert_eq!(ids(&again), [sent[0]]);
    assert!(store.complete(dying, &[lost.fence()]).await.unwrap().is_empty());
    store.finish(node, &again[0]).await;
    assert_eq!(store.admit_all().await, 1);
    sound(&store).await;
}

/// A job handed out to an external worker holds its group too, and frees it with its outcome.
pub(crate) async fn external_workers_hold_groups<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = store.send_all(jobs(3).into_iter().map(|job| job.exclusive("g"))).await;
    store.admit_all().await;
    let handed = store.hand_out("default", 10, LATER, hand_out_number()).await.unwrap();
    assert_eq!(ids(&handed), [sent[0]]);
    assert_eq!(store.admit_all().await, 0);
    assert_eq!(store.take_back(&[handed[0].fence()]).await.unwrap(), 1);
    assert_eq!(store.admit_all().await, 0, "it kept its group");
    sound(&store).await;
    let handed = store.hand_out("default", 10, LATER, hand_out_number()).await.unwrap();
    assert_eq!(ids(&handed), [sent[0]]);
    let done = jobwright::internal::engine::ExternalDone { fence: handed[0].fence(), result: None };
    let completed = store.complete_external(&[done]).await.unwrap();
    assert_eq!((completed.ids, completed.unblocks, completed.replies), (vec![sent[0]], true, false));
    assert_eq!(store.admit_all().await, 1);
    sound(&store).await;
}

/// Jobs complete in one batch, and their groups become free together.
pub(crate) async fn a_batch_releases_only_the_permits_of_the_jobs_it_ended<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.send_all((0..8).map(|n| job().exclusive(format!("g{}", n % 4)))).await;
    // One that holds its group when its row is gone, and one that holds nothing.
    store.send(job().ordered("o")).await;
    store.send(job()).await;
    store.admit_all().await;
    let claimed = store.take(node, 10).await;
    assert_eq!(claimed.len(), 6);
    // Given back and claimed again meanwhile, and cancelled while it ran.
    assert!(store.settle_one(node, claimed[1].fence(), Verdict::Release).await);
    let again = store.take_one(node).await;
    assert_eq!(again.id, claimed[1].id);
    store.cancel(&JobFilter::ids([claimed[2].id]), false).await.unwrap();
    let mut fences: Vec<_> = claimed.iter().map(jobwright::Job::fence).collect();
    // The old claim, even with the row's present location.
    fences[1] = with_version(again.fence(), claimed[1].version);
    let accepted = store.complete(node, &fences).await.unwrap();
    assert_eq!(set(accepted), set([0, 3, 4, 5].map(|n| claimed[n].id)));
    sound(&store).await;
    // Two groups are free. One is held by the job that was claimed again, and one by a handler whose end is not reported yet.
    assert_eq!(store.admit_all().await, 2);
    assert_eq!(ids(&store.take(node, 10).await).len(), 2);
    store.finish(node, &again).await;
    assert_eq!(store.admit_all().await, 1);
    store.handlers_ended(node, &fences).await.unwrap();
    assert_eq!(store.admit_all().await, 1);
    sound(&store).await;
}

/// An old handler ends late. Its id was sent again meanwhile, and the new job holds a group without being claimed.
pub(crate) async fn a_late_outcome_releases_no_permit_of_a_new_job_with_its_id<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let id = store.send(job().exclusive("g")).await;
    store.admit_all().await;
    let old = store.take_one(node).await;
    store.cancel(&JobFilter::ids([id]), false).await.unwrap();
    store.send(job().id(id).ordered("o")).await;
    store.send(job().ordered("o")).await;
    store.admit_all().await;
    let new = store.take_one(node).await;
    assert!(store.settle_one(node, new.fence(), Verdict::Retry(LATER)).await);
    assert_eq!(store.complete(node, &[old.fence()]).await.unwrap(), []);
    sound(&store).await;
    assert_eq!(store.admit_all().await, 0, "it waits for its next attempt, and the other one for it");
}

/// A released or snoozed job does not cost the others their turn, and permits are conserved whatever the verdict.
pub(crate) async fn every_verdict_conserves_permits<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let verdicts = [Verdict::Retry(LATER), Verdict::Snooze(LATER), Verdict::Release, Verdict::Cancel, Verdict::Dead];
    for (n, verdict) in verdicts.into_iter().enumerate() {
        for ordered in [false, true] {
            let group = format!("g{n}{ordered}");
            store.send(if ordered { job().ordered(group) } else { job().exclusive(group) }).await;
            store.admit_all().await;
            let claimed = store.take_one(node).await;
            assert!(store.settle_one(node, claimed.fence(), verdict.clone()).await);
            store.admit_all().await;
            sound(&store).await;
            // A released job would be the next to be claimed.
            for left in store.take(node, 10).await {
                store.finish(node, &left).await;
            }
            sound(&store).await;
        }
    }
}
