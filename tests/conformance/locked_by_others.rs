//! PostgreSQL: what carries the work of several waits for no row, key or id that an application, an operator or a reader has locked.

use std::time::Duration;

use jobwright::Store;
use jobwright::admin::JobState;
use jobwright::internal::engine::schedules::fire_due;
use jobwright::internal::engine::{Extension, ExternalDone, Received, Settlement, UnitOfWork, Verdict};
use jobwright::internal::{Fence, Submission};
use jobwright::{ErrorKind, JobId, NewJob, NewSchedule, Unique};
use tokio::time::timeout;

use crate::conformance::schedules::{days_ago, every_day, put_new};
use crate::support::jobs::{LATER, fences, hand_out_number, job, jobs, message, messages};
use crate::support::postgres::Pg;
use crate::support::{TestDb, eventually};

/// Far below the deadline of a call: a call that takes longer has waited for the lock.
const SOON: Duration = Duration::from_secs(10);

/// A batch of outcomes with a job that another transaction has locked fails soon, and the store says which job that is and who has it.
pub(crate) async fn outcomes_do_not_wait_for_them<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    store.send_all(jobs(6)).await;
    let node = store.node().await;
    let claimed = store.take(node, 6).await;
    let held = db.hold(&format!("select from {{schema}}.job where id = '{}' for update", claimed[1].id)).await;
    let fences = fences(&claimed);
    let settlements: Vec<_> = fences.iter().map(|fence| Settlement::new(*fence, Verdict::Cancel)).collect();
    let released: Vec<_> = fences.iter().map(|fence| Settlement::new(*fence, Verdict::Release)).collect();
    let moved: Vec<_> = fences.iter().map(|fence| Fence::new(fence.id, fence.version)).collect();
    for fences in [&fences, &moved] {
        refused_soon(store.complete(node, fences)).await;
    }
    for settlements in [&settlements, &released] {
        refused_soon(store.settle(node, settlements)).await;
    }
    refused_soon(store.put_off(node, fences[1], LATER)).await;
    let found = timeout(SOON, store.held(node, &fences)).await.expect("it waited").unwrap();
    assert_eq!(found.iter().map(|job| job.id).collect::<Vec<_>>(), [claimed[1].id]);
    assert!(found[0].held_by.starts_with("pid "), "{found:?}");
    let others: Vec<Fence> = fences.iter().filter(|fence| fence.id != claimed[1].id).copied().collect();
    assert_eq!(timeout(SOON, store.complete(node, &others)).await.expect("it waited").unwrap().len(), 5);
    assert_eq!(store.held(node, &others).await.unwrap(), []);
    held.release().await;
    assert_eq!(store.held(node, &fences).await.unwrap(), []);
    store.finish(node, &claimed[1]).await;
}

/// Asserts that a call neither waits for a lock nor takes effect.
async fn refused_soon<T: std::fmt::Debug>(call: impl Future<Output = jobwright::Result<T>>) {
    let error = timeout(SOON, call).await.expect("it waited").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
}

/// The same for the reports of external workers.
pub(crate) async fn reports_do_not_wait_for_them<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    store.send_all(jobs(3)).await;
    let out = store.hand_out("default", 3, LATER, hand_out_number()).await.unwrap();
    let held = db.hold(&format!("select from {{schema}}.external_job where id = '{}' for update", out[0].id)).await;
    let fences = fences(&out);
    let done: Vec<_> = fences.iter().map(|fence| ExternalDone { fence: *fence, result: None }).collect();
    refused_soon(store.complete_external(&done)).await;
    let failed: Vec<_> = fences.iter().map(|fence| Settlement::new(*fence, Verdict::Dead)).collect();
    refused_soon(store.settle_external(&failed)).await;
    let longer: Vec<_> = fences.iter().map(|fence| Extension { fence: *fence, lease: None }).collect();
    refused_soon(store.extend_external(&longer)).await;
    // The others are taken back, and the caller learns that one is not.
    refused_soon(store.take_back(&fences)).await;
    assert_eq!(store.count(JobState::Waiting).await, 2);
    held.release().await;
    assert_eq!(store.complete_external(&done[..1]).await.unwrap().ids, [out[0].id]);
}

/// Whoever is to be stored beside a message whose id or key nobody can decide about yet is stored.
pub(crate) async fn submissions_do_not_wait_for_them<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let of = |job: NewJob| Submission { message: message(job.id(JobId::new())), digest: [0; 32] };
    let keyed = |key: &str| of(job().unique(Unique::key(key)));
    let mut all: Vec<Submission> = (0..20).map(|_| of(job())).collect();
    all.extend(["free", "held", "held", "other"].map(keyed));
    // It must not overtake the one before in their group.
    all.push(of(job().unique(Unique::key("held")).exclusive("group")));
    all.push(of(job().unique(Unique::key("last")).exclusive("group")));
    let mut open = db.store().begin().await.unwrap();
    let (theirs, id) = (messages([job().unique(Unique::key("held"))]), all[3].message.clone());
    open.insert(&theirs, None).await.unwrap();
    open.insert(&[id], None).await.unwrap();
    let answers = timeout(SOON, store.receive(&all)).await.expect("it waited").unwrap();
    for (index, (answer, submission)) in answers.iter().zip(&all).enumerate() {
        let id = submission.message.id;
        match answer {
            Received::Undecided { id: named, held_by } => {
                assert!(*named == id && held_by.starts_with("pid "), "{answer:?}");
                assert!([3, 21, 22, 24, 25].contains(&index), "{index} does not need it");
            }
            answer => assert_eq!(*answer, Received::Stored(id), "{index}"),
        }
    }
    assert_eq!(store.all().await.len(), 21);
    open.commit().await.unwrap();
    let again = store.receive(&all).await.unwrap();
    assert!(
        again.iter().enumerate().all(|(index, answer)| {
            let id = all[index].message.id;
            *answer == if index == 25 { Received::Stored(id) } else { Received::Known(id) }
        }),
        "{again:?}"
    );
}

/// Jobs of other groups are admitted, and the job that is locked is as soon as it is free.
pub(crate) async fn admission_passes_over_them<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let sent = store.send_all((0..4).map(|n| job().exclusive(n.to_string()))).await;
    let held = db.hold(&format!("select from {{schema}}.job where id = '{}' for update", sent[1])).await;
    for _ in 0..2 {
        timeout(SOON, store.admit_all()).await.expect("the pass waited");
    }
    assert_eq!(store.count(JobState::Waiting).await, 3);
    held.release().await;
    eventually(SOON, async || {
        store.admit_all().await;
        store.count(JobState::Waiting).await == 4
    })
    .await;
    assert_eq!(store.permit_faults().await.unwrap(), Vec::<String>::new());
}

/// A schedule whose job needs a unique key of an open transaction stays due, and the others fire.
pub(crate) async fn schedules_do_not_wait_for_keys<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    for name in ["held", "free"] {
        put_new(&store, NewSchedule::new(name, every_day(), job().unique(Unique::key(name)))).await;
        db.make_due(name, days_ago(1)).await;
    }
    let mut open = db.store().begin().await.unwrap();
    open.insert(&messages([job().unique(Unique::key("held"))]), None).await.unwrap();
    let fired = timeout(SOON, fire_due(&*store.0, 1000)).await.expect("it waited").unwrap();
    assert_eq!((fired.schedules, fired.jobs), (1, 1));
    open.rollback().await.unwrap();
    assert_eq!(fire_due(&*store.0, 1000).await.unwrap().jobs, 1);
}

/// What a node owns without knowing is given back, whatever others have locked.
pub(crate) async fn lost_claims_do_not_wait_for_them<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    store.send_all(jobs(3)).await;
    let node = store.node().await;
    let claimed = store.take(node, 3).await;
    let held = db.hold(&format!("select from {{schema}}.job where id = '{}' for update", claimed[1].id)).await;
    refused_soon(store.release_unknown(node, &[], None)).await;
    assert_eq!(store.count(JobState::Waiting).await, 2, "the others are released");
    held.release().await;
    assert_eq!(store.release_unknown(node, &[], None).await.unwrap(), 1);
}
