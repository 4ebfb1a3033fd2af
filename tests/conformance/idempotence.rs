//! A given id is sent once, as long as its job exists in any state.

use std::time::Duration;

use jobwright::admin::{JobFilter, JobState};
use jobwright::internal::engine::{Preclaim, Verdict};
use jobwright::{JobId, NewJob};

use crate::support::jobs::{LATER, claim_number, job, messages, node_info};
use crate::support::{Jobs, TestDb};

/// Asserts that sending the id again, in every possible way, changes nothing.
async fn is_ignored(store: &Jobs, id: JobId, state: JobState) {
    assert_eq!(store.state(id).await, Some(state));
    let before = format!("{:?}", store.detail(id).await);
    for again in [job(), job().delay(LATER), NewJob::json("kind", &2).priority(9)] {
        let inserted = store.insert(&messages([again.id(id)]), None).await.unwrap();
        assert_eq!((inserted.rows, inserted.owned), (0, vec![]), "sent again while {state}");
    }
    let node = store.node().await;
    let owned = Preclaim { node, claim: claim_number(), ids: [id].into() };
    let inserted = store.insert(&messages([job().id(id)]), Some(&owned)).await.unwrap();
    assert_eq!((inserted.rows, inserted.owned), (0, vec![]), "sent again as owned while {state}");
    assert_eq!(format!("{:?}", store.detail(id).await), before, "{state}");
    assert_eq!(store.all().await.len(), 1, "{state}");
}

pub(crate) async fn while_waiting<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job().id(JobId::new())).await;
    is_ignored(&store, id, JobState::Waiting).await;
}

pub(crate) async fn while_running<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job().id(JobId::new())).await;
    is_ignored(&store, claimed.id, JobState::Running).await;
    assert_eq!(store.complete(node, &[claimed.fence()]).await.unwrap(), [claimed.id], "the claim is still good");
}

pub(crate) async fn while_a_timer<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job().id(JobId::new()).delay(LATER)).await;
    is_ignored(&store, id, JobState::Timer).await;
}

pub(crate) async fn while_suspended<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job().id(JobId::new())).await;
    db.suspend(id).await;
    is_ignored(&store, id, JobState::Suspended).await;
}

pub(crate) async fn while_dead<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job().id(JobId::new())).await;
    assert!(store.settle_one(node, claimed.fence(), Verdict::Dead).await);
    is_ignored(&store, claimed.id, JobState::Dead).await;
}

/// This also holds when the first send did not give the id: any id counts.
pub(crate) async fn of_a_job_sent_without<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job()).await;
    is_ignored(&store, id, JobState::Waiting).await;
}

pub(crate) async fn gone_means_free<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, claimed) = store.running(job().id(JobId::new())).await;
    store.complete(node, &[claimed.fence()]).await.unwrap();
    assert_eq!(store.send(job().id(claimed.id)).await, claimed.id);
    // A new job: the old claim has no power over it, though its version will come again.
    let again = store.take_one(node).await;
    assert_eq!((again.id, again.attempt), (claimed.id, 1));
    assert!(again.seq > claimed.seq);
}

pub(crate) async fn twice_in_one_batch<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = JobId::new();
    let twice = messages([job().id(id).header("n", "1"), job().id(id).header("n", "2")]);
    assert_eq!(store.insert(&twice, None).await.unwrap().rows, 1);
    assert_eq!(store.detail(id).await.headers["n"], "1", "the first counts");
    assert_eq!(store.all().await.len(), 1);
}

/// The two would go into different tables, where no index stops the second.
pub(crate) async fn twice_in_one_batch_once_delayed<T: TestDb>(db: &T) {
    let store = db.jobs();
    for (first, second, state) in [
        (job(), job().delay(LATER), JobState::Waiting),
        (job().delay(LATER), job(), JobState::Timer),
        (job().delay(LATER), job().delay(Duration::from_secs(60)), JobState::Timer),
    ] {
        let id = JobId::new();
        assert_eq!(store.insert(&messages([first.id(id), second.id(id)]), None).await.unwrap().rows, 1);
        assert_eq!(store.find(&JobFilter::ids([id])).await.len(), 1, "one row in all tables");
        assert_eq!(store.state(id).await, Some(state), "the first counts");
    }
}

pub(crate) async fn twice_in_one_batch_owned<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.register_node(&node_info("n")).await.unwrap();
    let id = JobId::new();
    let owned = Preclaim { node, claim: claim_number(), ids: [id].into() };
    let inserted = store.insert(&messages([job().id(id), job().id(id)]), Some(&owned)).await.unwrap();
    assert_eq!((inserted.rows, inserted.owned.len()), (1, 1));
    assert_eq!(store.count(JobState::Running).await, 1);
}

pub(crate) async fn others_of_the_batch_are_kept<T: TestDb>(db: &T) {
    let store = db.jobs();
    let known = [store.send(job().id(JobId::new())).await, store.send(job().id(JobId::new()).delay(LATER)).await];
    let fresh = [JobId::new(), JobId::new(), JobId::new()];
    let batch = messages([
        job().id(known[0]),
        job().id(fresh[0]),
        job().id(known[1]),
        job().id(fresh[1]).delay(LATER),
        job().id(fresh[2]),
    ]);
    assert_eq!(store.insert(&batch, None).await.unwrap().rows, 3);
    assert_eq!(store.find(&JobFilter::ids(fresh)).await.len(), 3);
    assert_eq!(store.all().await.len(), 5);
}

/// Ids need not be a `UUIDv7`: a sender may derive one from its own key.
pub(crate) async fn any_uuid_will_do<T: TestDb>(db: &T) {
    let store = db.jobs();
    for text in [
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "886313e1-3b8a-5372-9b90-0c9aee199e5d",
    ] {
        let id: JobId = text.parse().unwrap();
        assert_eq!(store.send(job().id(id)).await, id);
        assert_eq!(store.detail(id).await.summary.id, id);
        let inserted = store.insert(&messages([job().id(id)]), None).await.unwrap();
        assert_eq!(inserted.rows, 0);
    }
}
