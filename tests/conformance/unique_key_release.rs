//! What becomes of the keys of unique jobs when many of them end together.

use std::time::Duration;

use jobwright::Store;
use jobwright::admin::{JobFilter, Rule, Scope};
use jobwright::internal::engine::{Settlement, UnitOfWork, Verdict};
use jobwright::{JobId, NewJob, Unique};

use crate::conformance::groups::sound;
use crate::conformance::uniques::{one, try_send};
use crate::support::jobs::{LATER, fences, ids, job, messages, set, with_version};
use crate::support::{Jobs, TestDb};

/// More keys than are looked up one by one.
pub(crate) const MANY: usize = 20;

pub(crate) fn many() -> impl Iterator<Item = NewJob> {
    (0..MANY).map(|n| one(&format!("k{n}")))
}

/// Returns whether a key is free, by taking it and giving it back.
pub(crate) async fn is_free(store: &Jobs, key: &str) -> bool {
    let (sent, holder) = try_send(store, one(key)).await;
    if holder.is_none() {
        store.delete(&JobFilter::ids([sent]), false).await.unwrap();
    }
    holder.is_none()
}

pub(crate) async fn a_batch_gives_its_keys_back<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    for _ in 0..2 {
        let sent = store.send_all(many()).await;
        let again = messages(many());
        let duplicates = store.insert(&again, None).await.unwrap().duplicates;
        assert_eq!(duplicates, again.iter().map(|message| message.id).zip(sent.clone()).collect::<Vec<_>>());
        let claimed = store.take(node, MANY).await;
        assert_eq!(set(store.complete(node, &fences(&claimed)).await.unwrap()), set(sent));
    }
    assert_eq!(store.send_all(many()).await.len(), MANY);
}

/// One batch has jobs with a key, with a group, with both, with a permit, and with nothing.
pub(crate) async fn beside_others_that_hold_something<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.put_rule(&Rule::new(Scope::Tenant, "acme").running(2)).await.unwrap();
    let sort = |n: usize| match n {
        0 => one("key"),
        1 => job().exclusive("group"),
        2 => one("both").exclusive("both"),
        3 => one("limited").tenant("acme"),
        4 => one("ordered").ordered("ordered"),
        _ => job(),
    };
    for _ in 0..2 {
        let sent = store.send_all((0..6).map(sort)).await;
        store.admit_all().await;
        let claimed = store.take(node, 10).await;
        assert_eq!(set(ids(&claimed)), set(sent.clone()), "keys, groups and places were free");
        assert_eq!(set(store.complete(node, &fences(&claimed)).await.unwrap()), set(sent));
        sound(&store).await;
    }
}

pub(crate) async fn keys_of_jobs_that_a_node_did_not_end_stay<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (node, other) = (store.node().await, store.node().await);
    store.send_all((0..4).map(|n| one(&format!("k{n}")))).await;
    let mut claimed = store.take(node, 3).await;
    let of_other = store.take_one(other).await;
    // Given back and claimed again meanwhile.
    assert!(store.settle_one(node, claimed[1].fence(), Verdict::Release).await);
    let again = store.take_one(node).await;
    assert_eq!(again.id, claimed[1].id);
    claimed.push(of_other);
    let mut ends = fences(&claimed);
    // The old claim, even with the row's present location.
    ends[1] = with_version(again.fence(), claimed[1].version);
    let accepted = store.complete(node, &ends).await.unwrap();
    assert_eq!(set(accepted), set([claimed[0].id, claimed[2].id]));
    for (n, free) in [(0, true), (1, false), (2, true), (3, false)] {
        assert_eq!(is_free(&store, &format!("k{n}")).await, free, "k{n}");
    }
}

pub(crate) async fn not_the_key_that_another_has_by_now<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let waiting = |n: usize| job().unique(Unique::key(format!("k{n}")).while_waiting());
    store.send_all((0..MANY).map(waiting)).await;
    let first = store.take(node, MANY).await;
    let second = store.send_all((0..MANY / 2).map(waiting)).await;
    assert_eq!(store.complete(node, &fences(&first)).await.unwrap().len(), MANY);
    for (n, holder) in second.into_iter().enumerate() {
        assert_eq!(try_send(&store, waiting(n)).await.1, Some(holder));
    }
    for n in MANY / 2..MANY {
        assert_eq!(try_send(&store, waiting(n)).await.1, None);
    }
}

pub(crate) async fn a_period_goes_on<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let period = |n: usize| job().unique(Unique::key(format!("k{n}")).for_period(LATER));
    let sent = store.send_all((0..MANY).map(period)).await;
    let claimed = store.take(node, MANY).await;
    let (batch, alone) = claimed.split_at(MANY / 2);
    assert_eq!(store.complete(node, &fences(batch)).await.unwrap().len(), MANY / 2);
    let mut transaction = db.store().begin().await.unwrap();
    assert!(transaction.remove_all(node, &fences(alone)).await.unwrap());
    transaction.commit().await.unwrap();
    let duplicates = store.insert(&messages((0..MANY).map(period)), None).await.unwrap().duplicates;
    assert_eq!(duplicates.into_iter().map(|(_, holder)| holder).collect::<Vec<_>>(), sent);
}

/// An old handler ends late. Its id was sent again meanwhile, with the same key.
pub(crate) async fn a_late_outcome_releases_no_key_of_a_new_job_with_its_id<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let ids: Vec<JobId> = (0..3).map(|_| JobId::new()).collect();
    let send = async || store.send_all(ids.iter().enumerate().map(|(n, id)| one(&format!("k{n}")).id(*id))).await;
    send().await;
    let old = store.take(node, 3).await;
    store.cancel(&JobFilter::ids(ids.clone()), false).await.unwrap();
    store.handlers_ended(node, &fences(&old)).await.unwrap();
    send().await;
    let new = store.take(node, 1).await;
    assert_eq!(new.len(), 1);
    assert_eq!(store.complete(node, &fences(&old)).await.unwrap(), []);
    for n in 0..3 {
        assert!(!is_free(&store, &format!("k{n}")).await, "k{n}");
    }
}

/// Failed, snoozed, released and dead jobs, beside some that are done.
pub(crate) async fn jobs_that_have_not_ended_keep_their_keys<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.send_all((0..8).map(|n| one(&format!("k{n}")))).await;
    let claimed = store.take(node, 8).await;
    let verdicts = [
        Verdict::Retry(LATER),
        Verdict::Snooze(LATER),
        Verdict::Release,
        Verdict::Dead,
        Verdict::Retry(Duration::ZERO),
        Verdict::Cancel,
    ];
    let outcomes: Vec<Settlement> =
        claimed.iter().zip(verdicts).map(|(job, verdict)| Settlement::new(job.fence(), verdict)).collect();
    assert_eq!(store.settle(node, &outcomes).await.unwrap().len(), 6);
    assert_eq!(store.complete(node, &fences(&claimed[6..])).await.unwrap().len(), 2);
    db.suspend(claimed[2].id).await;
    for (n, free) in [false, false, false, false, false, true, true, true].into_iter().enumerate() {
        assert_eq!(is_free(&store, &format!("k{n}")).await, free, "k{n}");
    }
    // The others run to their end.
    store.promote().await;
    let rest = store.take(node, 8).await;
    assert_eq!(ids(&rest), [claimed[4].id]);
    store.complete(node, &fences(&rest)).await.unwrap();
    assert!(is_free(&store, "k4").await);
}

/// The handlers' transactions end the jobs: one alone, and several together. A rollback frees no key.
pub(crate) async fn ended_by_transactions<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.send_all((0..6).map(|n| one(&format!("k{n}")))).await;
    let claimed = store.take(node, 6).await;
    let remove = async |commits: bool| {
        let mut transaction = db.store().begin().await.unwrap();
        assert!(transaction.remove(node, claimed[0].fence()).await.unwrap());
        assert!(transaction.remove_all(node, &fences(&claimed[1..5])).await.unwrap());
        // Within the transaction a key that it freed is free already.
        assert_eq!(transaction.insert(&messages([one("k0"), one("k5")]), None).await.unwrap().rows, 1);
        if commits { transaction.commit().await.unwrap() } else { transaction.rollback().await.unwrap() }
    };
    remove(false).await;
    assert!(!is_free(&store, "k0").await && !is_free(&store, "k4").await);
    remove(true).await;
    for (n, free) in [false, true, true, true, true, false].into_iter().enumerate() {
        assert_eq!(is_free(&store, &format!("k{n}")).await, free, "k{n}");
    }
}
