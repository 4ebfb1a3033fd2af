//! A job that is cancelled while it runs is gone, but its permits stay taken until its handler has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jobwright::admin::{JobFilter, JobState, Released, Rule, Scope};
use jobwright::internal::Fence;
use jobwright::internal::engine::{ExternalDone, MaintenanceRequest, Settlement, Verdict};
use jobwright::{Job, JobId, NewJob, NodeId};
use tokio::task::JoinSet;

use crate::conformance::groups::sound;
use crate::support::jobs::{LATER, NOBODY, claim_number, hand_out_number, ids, job, with_version};
use crate::support::{Jobs, TestDb, eventually};

/// Sends two jobs of a group, of which the first is claimed and cancelled.
async fn cancelled(store: &Jobs, sent: impl Fn() -> NewJob) -> (NodeId, Job, JobId) {
    let first = store.send(sent()).await;
    let second = store.send(sent()).await;
    let node = store.node().await;
    assert_eq!(store.admit_all().await, 1);
    let claimed = store.take_one(node).await;
    assert_eq!(claimed.id, first);
    cancel(store, first, JobState::Running).await;
    (node, claimed, second)
}

async fn cancel(store: &Jobs, id: JobId, state: JobState) {
    let affected = store.cancel(&JobFilter::ids([id]), false).await.unwrap();
    assert_eq!(affected.0.get(&state), Some(&1));
    assert_eq!(store.state(id).await, None);
}

/// Asserts that nothing may start, whatever is tried.
async fn still_taken(store: &Jobs) {
    assert_eq!(store.admit_all().await, 0, "something was admitted beside a handler that still runs");
    sound(store).await;
}

async fn goes_on_with(store: &Jobs, id: JobId) {
    assert_eq!(store.admit_all().await, 1);
    sound(store).await;
    let node = store.node().await;
    let claimed = store.take(node, 10).await;
    assert_eq!(ids(&claimed), [id]);
    store.finish(node, &claimed[0]).await;
    sound(store).await;
}

pub(crate) async fn a_group_waits_for_the_handler<T: TestDb>(db: &T) {
    let store = db.jobs();
    for sent in [|| job().exclusive("g"), || job().ordered("h")] {
        let (node, claimed, second) = cancelled(&store, sent).await;
        still_taken(&store).await;
        assert_eq!(store.handlers_ended(node, &[claimed.fence()]).await.unwrap(), 1);
        assert_eq!(store.handlers_ended(node, &[claimed.fence()]).await.unwrap(), 0, "it was told before");
        goes_on_with(&store, second).await;
    }
}

pub(crate) async fn a_limit_waits_for_the_handler<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.put_rule(&Rule::new(Scope::Tenant, "*").running(1)).await.unwrap();
    let (node, claimed, second) = cancelled(&store, || job().tenant("acme")).await;
    still_taken(&store).await;
    assert_eq!(store.handlers_ended(node, &[claimed.fence()]).await.unwrap(), 1);
    goes_on_with(&store, second).await;
}

/// All permits stay taken: those of a group and of several limits.
pub(crate) async fn all_that_it_held_waits<T: TestDb>(db: &T) {
    let store = db.jobs();
    for rule in [Rule::new(Scope::Tenant, "acme").running(1), Rule::new(Scope::Kind, "kind").running(2)] {
        store.put_rule(&rule).await.unwrap();
    }
    let (node, claimed, second) = cancelled(&store, || job().tenant("acme").exclusive("g")).await;
    store.send(job().exclusive("g").tenant("other")).await;
    store.send(job().tenant("acme").exclusive("h")).await;
    still_taken(&store).await;
    let free = store.send(job()).await;
    assert_eq!(store.admit_all().await, 1, "the kind has one place left");
    assert_eq!(store.take_one(node).await.id, free);
    still_taken(&store).await;
    assert_eq!(store.handlers_ended(node, &[claimed.fence()]).await.unwrap(), 1);
    assert_eq!(store.admit_all().await, 1);
    assert_eq!(ids(&store.take(node, 10).await), [second]);
    sound(&store).await;
}

/// Another job under the same id waits and ends like any other, beside the handler of the first.
pub(crate) async fn the_same_id_waits_too<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let id = store.send(job().id(JobId::new()).exclusive("g")).await;
    store.admit_all().await;
    let first = store.take_one(node).await;
    cancel(&store, id, JobState::Running).await;
    store.send(job().id(id).exclusive("g")).await;
    still_taken(&store).await;
    assert_eq!(store.state(id).await, Some(JobState::Blocked));
    // It may end before it began.
    cancel(&store, id, JobState::Blocked).await;
    still_taken(&store).await;
    store.send(job().id(id).exclusive("g")).await;
    still_taken(&store).await;
    assert_eq!(store.handlers_ended(node, &[first.fence()]).await.unwrap(), 1);
    assert_eq!(store.admit_all().await, 1);
    let second = store.take_one(node).await;
    assert_eq!(second.id, id);
    // The second job is cancelled in turn: each handler's end is reported separately.
    cancel(&store, id, JobState::Running).await;
    assert_eq!(store.handlers_ended(node, &[first.fence()]).await.unwrap(), 0, "that was the other claim");
    let third = store.send(job().exclusive("g")).await;
    still_taken(&store).await;
    assert_eq!(store.handlers_ended(node, &[second.fence()]).await.unwrap(), 1);
    goes_on_with(&store, third).await;
}

/// Reports with another node, version or id free nothing.
pub(crate) async fn only_the_node_that_ran_a_cancelled_job_reports_its_end<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed, second) = cancelled(&store, || job().exclusive("g")).await;
    let other = store.node().await;
    let fence = claimed.fence();
    let another = with_version(fence, fence.version + 1);
    for (node, fence) in [(other, fence), (NOBODY, fence), (node, another), (node, Fence::new(second, fence.version))] {
        assert_eq!(store.handlers_ended(node, &[fence]).await.unwrap(), 0);
    }
    assert_eq!(store.handlers_ended(node, &[]).await.unwrap(), 0);
    // Its outcome is refused, and does not show that the handler has ended: it may continue.
    assert!(store.complete(node, &[fence]).await.unwrap().is_empty());
    still_taken(&store).await;
    // The report does not end a running job either.
    let running = store.send(job().exclusive("h")).await;
    assert_eq!(store.admit_all().await, 1);
    let running = (running, store.take_one(node).await);
    assert_eq!(store.handlers_ended(node, &[running.1.fence(), fence, fence]).await.unwrap(), 1);
    assert_eq!(store.state(running.0).await, Some(JobState::Running));
    store.finish(node, &running.1).await;
    goes_on_with(&store, second).await;
}

/// A job that waits, or holds nothing, leaves nothing when its row is removed.
pub(crate) async fn a_cancelled_job_that_did_not_run_holds_nothing<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let admitted = store.send(job().exclusive("g")).await;
    let second = store.send(job().exclusive("g")).await;
    assert_eq!(store.admit_all().await, 1);
    cancel(&store, admitted, JobState::Waiting).await;
    goes_on_with(&store, second).await;
    let plain = store.send(job()).await;
    let plain = (plain, store.take_one(node).await);
    cancel(&store, plain.0, JobState::Running).await;
    assert_eq!(store.handlers_ended(node, &[plain.1.fence()]).await.unwrap(), 0);
    sound(&store).await;
}

pub(crate) async fn a_retired_node_frees_it<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed, second) = cancelled(&store, || job().exclusive("g")).await;
    assert_eq!(store.retire_node(node).await.unwrap(), 0);
    assert_eq!(store.handlers_ended(node, &[claimed.fence()]).await.unwrap(), 0);
    goes_on_with(&store, second).await;
}

pub(crate) async fn a_dead_node_frees_it<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, _, second) = cancelled(&store, || job().exclusive("g")).await;
    store.declare(node).await;
    still_taken(&store).await;
    let released = store.release_lost(10, None).await.unwrap();
    assert_eq!(released, Released { ended: 1, ..Released::default() });
    goes_on_with(&store, second).await;
}

/// A job of a dead node leaves nothing: no report of its handler is awaited.
pub(crate) async fn a_job_of_a_dead_node_holds_nothing<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let first = store.send(job().exclusive("g")).await;
    let second = store.send(job().exclusive("g")).await;
    store.admit_all().await;
    assert_eq!(store.take_one(node).await.id, first);
    store.declare(node).await;
    cancel(&store, first, JobState::Running).await;
    goes_on_with(&store, second).await;
    assert_eq!(store.release_lost(10, None).await.unwrap(), Released::default());
}

/// The answer to the claim got lost, and then the job was cancelled: no handler runs, and the node does not know of it.
pub(crate) async fn a_claim_that_got_lost_frees_it<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed, second) = cancelled(&store, || job().exclusive("g")).await;
    assert_eq!(store.release_unknown(node, &[claimed.fence()], Some(claim_number())).await.unwrap(), 0);
    still_taken(&store).await;
    // An older claim of the same job does not keep it.
    let older = with_version(claimed.fence(), claimed.version - 1);
    assert_eq!(store.release_unknown(node, &[older], Some(claim_number())).await.unwrap(), 0);
    goes_on_with(&store, second).await;

    // Claims that began after the check are left alone.
    let before = claim_number();
    let (node, claimed, second) = cancelled(&store, || job().exclusive("g")).await;
    store.release_unknown(node, &[], Some(before)).await.unwrap();
    still_taken(&store).await;
    // The same where the affected jobs are known.
    let claim = jobwright::internal::ClaimNumber::new(u32::try_from(claimed.version - 1).unwrap());
    store.release_claimed(node, before, &[claimed.id]).await.unwrap();
    still_taken(&store).await;
    store.release_claimed(node, claim, &[claimed.id]).await.unwrap();
    goes_on_with(&store, second).await;
}

/// Hands a job out to an external worker and cancels it, and sends another of its group.
async fn out(store: &Jobs, lease: Duration) -> (Fence, JobId) {
    let first = store.send(job().exclusive("g")).await;
    let second = store.send(job().exclusive("g")).await;
    assert_eq!(store.admit_all().await, 1);
    let handed = store.hand_out("default", 10, lease, hand_out_number()).await.unwrap();
    assert_eq!(ids(&handed), [first]);
    cancel(store, first, JobState::External).await;
    (handed[0].fence(), second)
}

/// Its report is refused, and shows that the worker has ended.
pub(crate) async fn an_external_worker_reports<T: TestDb>(db: &T) {
    let store = db.jobs();
    for way in 0..3 {
        let (fence, second) = out(&store, LATER).await;
        still_taken(&store).await;
        assert_eq!(store.expire_external(10).await.unwrap(), Released::default());
        still_taken(&store).await;
        match way {
            0 => {
                let done = store.complete_external(&[ExternalDone { fence, result: None }]).await.unwrap();
                assert_eq!((done.ids, done.unblocks), (vec![], true));
            }
            1 => {
                let failed = Settlement::new(fence, Verdict::Retry(Duration::ZERO)).error("oh", None);
                assert_eq!(store.settle_external(&[failed]).await.unwrap(), []);
            }
            // It was never published.
            _ => assert_eq!(store.take_back(&[fence]).await.unwrap(), 0),
        }
        goes_on_with(&store, second).await;
    }
}

/// The worker reports nothing: the lease ends, as for a job that was not cancelled.
pub(crate) async fn an_external_worker_says_nothing<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (_, second) = out(&store, Duration::from_millis(300)).await;
    eventually(Duration::from_secs(20), async || {
        store.maintenance_due(&MaintenanceRequest::default()).await.unwrap().external
    })
    .await;
    eventually(Duration::from_secs(20), async || {
        store.expire_external(10).await.unwrap() == Released { ended: 1, ..Released::default() }
    })
    .await;
    goes_on_with(&store, second).await;
}

/// Cancellations, ends and admission passes at the same time: never two of a group at once, and in the end nothing is held.
pub(crate) async fn all_at_the_same_time<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all((0..40).map(|n| job().exclusive(format!("g{}", n % 2)))).await;
    let within: Arc<[AtomicUsize; 2]> = Arc::default();
    let mut runners = JoinSet::new();
    for patient in [true, false, true, false] {
        let (store, within) = (store.clone(), within.clone());
        runners.spawn(async move {
            let node = store.node().await;
            let mut began = 0;
            while store.count(JobState::Blocked).await + store.count(JobState::Waiting).await > 0 {
                store.admit_all().await;
                for claimed in store.take(node, 2).await {
                    let fence = [claimed.fence()];
                    let group = usize::from(claimed.options.group.as_deref() == Some("g1"));
                    assert_eq!(within[group].fetch_add(1, Ordering::SeqCst), 0, "two of a group at the same time");
                    began += 1;
                    if patient {
                        cancel(&store, claimed.id, JobState::Running).await;
                        within[group].fetch_sub(1, Ordering::SeqCst);
                        assert_eq!(store.complete(node, &fence).await.unwrap(), []);
                    } else {
                        within[group].fetch_sub(1, Ordering::SeqCst);
                        let meant = JobFilter::ids([claimed.id]);
                        let (cancelled, done) = tokio::join!(store.cancel(&meant, false), store.complete(node, &fence));
                        let both = cancelled.unwrap().total() + done.unwrap().len() as u64;
                        assert_eq!(both, 1, "one of them was first");
                    }
                    store.handlers_ended(node, &fence).await.unwrap();
                }
            }
            began
        });
    }
    let mut began = 0;
    while let Some(some) = runners.join_next().await {
        began += some.unwrap();
    }
    assert_eq!((began, store.all().await.len()), (40, 0));
    store.admit_all().await;
    sound(&store).await;
}
