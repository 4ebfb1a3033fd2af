//! Unique jobs: one job a key, whatever number is sent.

use std::time::Duration;

use jobwright::Store;
use jobwright::admin::{JobFilter, JobState};
use jobwright::internal::Submission;
use jobwright::internal::engine::{Received, UnitOfWork, Verdict};
use jobwright::{ErrorKind, JobId, NewJob, Unique};
use serde_json::json;

use crate::conformance::groups::sound;
use crate::support::jobs::{LATER, hand_out_number, ids, job, message, messages, preclaim};
use crate::support::{Jobs, TestDb, eventually};

/// Returns a job that holds `key` until it is done.
pub(crate) fn one(key: &str) -> NewJob {
    job().unique(Unique::key(key))
}

/// Sends a job; `Some`: it is a duplicate of that job.
pub(crate) async fn try_send(store: &Jobs, job: NewJob) -> (JobId, Option<JobId>) {
    let message = message(job);
    let inserted = store.insert(std::slice::from_ref(&message), None).await.unwrap();
    assert_eq!(inserted.rows, u64::from(inserted.duplicates.is_empty()));
    let holder = inserted.duplicates.first().map(|(id, holder)| {
        assert_eq!(*id, message.id);
        *holder
    });
    (message.id, holder)
}

/// The first message counts, though another job holds its key: the second, which has none, does not take its place.
pub(crate) async fn the_first_of_an_id_that_is_given_twice_counts<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let holder = store.send(one("a")).await;
    let id = JobId::new();
    let batch = messages([one("a").id(id), job().id(id), job()]);
    for owned in [None, Some(preclaim(node, &batch))] {
        let inserted = store.insert(&batch, owned.as_ref()).await.unwrap();
        assert_eq!((inserted.rows, inserted.duplicates), (1, vec![(id, holder)]));
        assert_eq!(inserted.owned.len(), usize::from(owned.is_some()));
        assert_eq!(store.state(id).await, None);
        store.delete(&JobFilter::ids([batch[2].id]), false).await.unwrap();
    }
}

/// The key is held from the send until the job is gone, in every state on the way.
pub(crate) async fn one_of_a_key_until_it_is_gone<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let keep_out = async |first: JobId| assert_eq!(try_send(&store, one("a")).await.1, Some(first));
    let (first, none) = try_send(&store, one("a")).await;
    assert_eq!(none, None);
    keep_out(first).await;
    let claimed = store.take_one(node).await;
    keep_out(first).await;
    store.fail(node, &claimed, Duration::ZERO, "oh").await;
    keep_out(first).await;
    store.promote().await;
    let handed = store.hand_out("default", 1, LATER, hand_out_number()).await.unwrap();
    assert_eq!(ids(&handed), [first]);
    keep_out(first).await;
    store.take_back(&[handed[0].fence()]).await.unwrap();
    db.suspend(first).await;
    keep_out(first).await;
    assert_eq!(store.all().await.len(), 1);
    store.delete(&JobFilter::ids([first]), false).await.unwrap();
    let (second, none) = try_send(&store, one("a")).await;
    assert_eq!(none, None);
    let claimed = store.take_one(node).await;
    assert_eq!(claimed.id, second);
    assert!(store.settle_one(node, claimed.fence(), Verdict::Dead).await);
    keep_out(second).await;
    store.retry(&JobFilter::ids([second]), false).await.unwrap();
    let claimed = store.take_one(node).await;
    store.finish(node, &claimed).await;
    assert_eq!(try_send(&store, one("a")).await.1, None);
}

/// Another key, kind, queue or payload is another job.
pub(crate) async fn key_kind_queue_and_payload_are_compared<T: TestDb>(db: &T) {
    let store = db.jobs();
    let with = |payload: serde_json::Value, unique: Unique| NewJob::json("k", &payload).unique(unique);
    let some = || Unique::fields(["/customer"]);
    for job in [
        one("a"),
        one("b"),
        NewJob::json("other", &1).unique(Unique::key("a")),
        with(json!({ "customer": 1, "n": 1 }), some()),
        with(json!({ "customer": 2 }), some()),
        with(json!({ "customer": 1 }), Unique::payload()),
        with(json!(1), Unique::key("a").per_queue()),
        with(json!(1), Unique::key("a").per_queue()).queue("q"),
        job(),
    ] {
        assert_eq!(try_send(&store, job).await.1, None);
    }
    let all = store.all().await.len();
    for job in [
        one("a").queue("q"),
        with(json!({ "customer": 1, "n": 2 }), some()),
        with(json!({ "customer": 1 }), Unique::payload()),
        with(json!(2), Unique::key("a").per_queue()).queue("q"),
    ] {
        assert!(try_send(&store, job).await.1.is_some());
    }
    assert_eq!(store.all().await.len(), all);
}

pub(crate) async fn while_it_waits<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let waiting = || job().unique(Unique::key("a").while_waiting());
    let (first, _) = try_send(&store, waiting()).await;
    assert_eq!(try_send(&store, waiting()).await.1, Some(first));
    let claimed = store.take_one(node).await;
    let (second, none) = try_send(&store, waiting()).await;
    assert_eq!(none, None, "the first runs");
    assert_eq!(try_send(&store, waiting()).await.1, Some(second));
    store.finish(node, &claimed).await;
    assert_eq!(try_send(&store, waiting()).await.1, Some(second), "its end is not that of the second");
    for hidden in [waiting().delay(LATER), waiting().exclusive("g")] {
        store.delete(&JobFilter::default(), false).await.unwrap();
        let (first, _) = try_send(&store, hidden).await;
        assert_eq!(try_send(&store, waiting()).await.1, Some(first));
    }
}

pub(crate) async fn for_a_period<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let period = |length: Duration| job().unique(Unique::key("a").for_period(length));
    let (first, _) = try_send(&store, period(LATER)).await;
    let claimed = store.take_one(node).await;
    store.finish(node, &claimed).await;
    assert_eq!(try_send(&store, period(LATER)).await.1, Some(first), "also after its end");
    // The period of the holder counts.
    assert_eq!(try_send(&store, period(Duration::from_secs(1))).await.1, Some(first));
    let short = || job().unique(Unique::key("b").for_period(Duration::from_millis(1)));
    try_send(&store, short()).await;
    eventually(Duration::from_secs(5), async || try_send(&store, short()).await.1.is_none()).await;
    eventually(Duration::from_secs(5), async || {
        store.expire_jobs(10).await.unwrap();
        try_send(&store, short()).await.1.is_none()
    })
    .await;
    assert_eq!(try_send(&store, period(LATER)).await.1, Some(first));
}

/// The newest job replaces one that waits, in whatever state it waits, and never one that runs.
pub(crate) async fn replace<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let next = |n: u32| NewJob::json("kind", &n).unique(Unique::key("a").replace());
    let (mut last, _) = try_send(&store, next(0).delay(LATER)).await;
    for job in [next(1).priority(3), next(2).exclusive("g"), next(3).delay(LATER), next(4)] {
        let (id, none) = try_send(&store, job).await;
        assert_eq!(none, None);
        assert_eq!(store.state(last).await, None);
        assert_eq!(store.all().await.len(), 1);
        last = id;
    }
    sound(&store).await;
    let claimed = store.take_one(node).await;
    assert_eq!((claimed.id, claimed.payload.decode::<u32>().unwrap()), (last, 4));
    assert_eq!(try_send(&store, next(5)).await.1, Some(last), "it runs");
    store.finish(node, &claimed).await;
    assert_eq!(try_send(&store, next(6)).await.1, None);
}

/// A suspended job is not replaced, however it holds its key.
pub(crate) async fn a_suspended_job_is_not_replaced<T: TestDb>(db: &T) {
    let store = db.jobs();
    for unique in [Unique::key("a"), Unique::key("b").while_waiting(), Unique::key("c").for_period(LATER)] {
        let (first, _) = try_send(&store, job().unique(unique.clone())).await;
        db.suspend(first).await;
        assert_eq!(try_send(&store, job().unique(unique.replace())).await.1, Some(first));
    }
}

/// The flush fails and writes nothing; its transaction can go on.
pub(crate) async fn reject<T: TestDb>(db: &T) {
    let store = db.jobs();
    let strict = || job().unique(Unique::key("a").reject());
    let (first, _) = try_send(&store, one("a")).await;
    let batch = || messages([job(), one("b"), strict(), job().unique(Unique::key("c").for_period(LATER))]);
    let error = store.insert(&batch(), None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains(&first.to_string()) && !error.is_retryable(), "{error}");
    assert_eq!(store.all().await.len(), 1);

    let mut transaction = db.store().begin().await.unwrap();
    let before = messages([job()]);
    transaction.insert(&before, None).await.unwrap();
    assert_eq!(transaction.insert(&batch(), None).await.unwrap_err().kind(), ErrorKind::Conflict);
    let after = messages([one("b"), job().unique(Unique::key("c").for_period(LATER))]);
    assert_eq!(transaction.insert(&after, None).await.unwrap().rows, 2, "no key was left taken");
    transaction.commit().await.unwrap();
    assert_eq!(store.all().await.len(), 4);
}

/// Of several with the same key in one flush the first is sent.
pub(crate) async fn in_bulk<T: TestDb>(db: &T) {
    let store = db.jobs();
    let (held, _) = try_send(&store, one("k3")).await;
    let batch = messages((0..50).map(|n| one(&format!("k{}", n % 10)).priority(n)));
    let inserted = store.insert(&batch, None).await.unwrap();
    assert_eq!((inserted.rows, inserted.duplicates.len()), (9, 41));
    for (sent, holder) in inserted.duplicates {
        let at = batch.iter().position(|message| message.id == sent).unwrap();
        let expected = if at % 10 == 3 { held } else { batch[at % 10].id };
        assert_eq!(holder, expected);
    }
    assert_eq!(store.all().await.len(), 10);
    let twice = messages([job().unique(Unique::key("z").reject()), job().unique(Unique::key("z").reject())]);
    assert_eq!(store.insert(&twice, None).await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(store.all().await.len(), 10);
}

/// A rolled-back send holds nothing.
pub(crate) async fn rolled_back_it_holds_nothing<T: TestDb>(db: &T) {
    let store = db.jobs();
    for unique in [Unique::key("a"), Unique::key("b").for_period(LATER), Unique::key("c").reject()] {
        let mut transaction = db.store().begin().await.unwrap();
        transaction.insert(&messages([job().unique(unique.clone())]), None).await.unwrap();
        transaction.rollback().await.unwrap();
        assert_eq!(try_send(&store, job().unique(unique)).await.1, None);
    }
}

/// An id that was sent before changes nothing, whichever job holds the key.
pub(crate) async fn the_same_id_twice_is_one_job<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = JobId::new();
    for unique in [Unique::key("a"), Unique::key("a").reject(), Unique::key("a").replace()] {
        store.insert(&messages([job().id(id).unique(unique)]), None).await.unwrap();
        assert_eq!(store.state(id).await, Some(JobState::Waiting));
        assert_eq!(store.all().await.len(), 1);
    }
}

/// This also holds when another job has taken its key: that job is not replaced by one that is not sent, and is no reason to fail.
pub(crate) async fn an_id_that_is_there_takes_nothing_from_others<T: TestDb>(db: &T) {
    let store = db.jobs();
    let waiting = || job().unique(Unique::key("a").while_waiting());
    let (node, first) = store.running(waiting().id(JobId::new())).await;
    let (second, none) = try_send(&store, waiting()).await;
    assert_eq!(none, None, "the first runs");
    let again = |unique: Unique| job().id(first.id).unique(unique);
    for unique in [Unique::key("a"), Unique::key("a").replace(), Unique::key("a").reject()] {
        assert_eq!(store.insert(&messages([again(unique.clone())]), None).await.unwrap().rows, 0);
        let mut transaction = db.store().begin().await.unwrap();
        assert_eq!(transaction.insert(&messages([again(unique)]), None).await.unwrap().rows, 0);
        transaction.commit().await.unwrap();
        assert_eq!(store.state(second).await, Some(JobState::Waiting));
    }
    // A known id does not take a free key either.
    store.insert(&messages([again(Unique::key("b")), one("b")]), None).await.unwrap();
    assert_eq!(store.all().await.len(), 3);
    store.finish(node, &first).await;
    assert_eq!(try_send(&store, waiting()).await.1, Some(second));
}

/// Many senders of overlapping batches in different orders: one job a key, and no deadlock.
pub(crate) async fn one_of_many_senders_wins<T: TestDb>(db: &T) {
    const KEYS: usize = 40;
    let mut senders = tokio::task::JoinSet::new();
    for n in 0..8 {
        let store = Jobs(db.reopen().await.engine());
        senders.spawn(async move {
            let mut rows = 0;
            for round in 0..4 {
                let mut keys: Vec<usize> = (0..KEYS).collect();
                keys.rotate_left((n * 7 + round * 11) % KEYS);
                if n % 2 == 0 {
                    keys.reverse();
                }
                let batch = messages(keys.into_iter().map(|key| one(&format!("k{key}"))));
                rows += store.insert(&batch, None).await.unwrap().rows;
            }
            rows
        });
    }
    let written: u64 = senders.join_all().await.into_iter().sum();
    assert_eq!(written, KEYS as u64);
    assert_eq!(db.jobs().all().await.len(), KEYS);
}

/// Many senders replace a job while it is claimed and done: two never wait at a time, and the last one sent runs.
pub(crate) async fn replacing_races_with_claims<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let store = Jobs(db.reopen().await.engine());
        senders.spawn(async move {
            for n in 0..15_u32 {
                let job = NewJob::json("kind", &n).unique(Unique::key("a").while_waiting().replace());
                store.insert(&messages([job]), None).await.unwrap();
                assert!(store.count(JobState::Waiting).await <= 1);
            }
        });
    }
    let mut done = 0;
    while !senders.is_empty() {
        for claimed in store.take(node, 10).await {
            store.finish(node, &claimed).await;
            done += 1;
        }
        while let Some(joined) = senders.try_join_next() {
            joined.unwrap();
        }
        tokio::task::yield_now().await;
    }
    done += store.take(node, 10).await.len();
    assert!(done >= 1 && store.count(JobState::Waiting).await == 0);
}

/// External producers submit jobs with a key: the submission is recorded, and takes its key once.
pub(crate) async fn submitted<T: TestDb>(db: &T) {
    let store = db.jobs();
    let submission = |id: JobId, job: NewJob| Submission { message: message(job.id(id)), digest: id_digest(id) };
    let ids: Vec<JobId> = (0..4).map(|_| JobId::new()).collect();
    let batch = [
        submission(ids[0], one("a")),
        submission(ids[1], job()),
        submission(ids[2], one("a")),
        submission(ids[0], one("a")),
    ];
    let answers = store.receive(&batch).await.unwrap();
    let (stored, known) = (Received::Stored, Received::Known);
    assert_eq!(answers, [stored(ids[0]), stored(ids[1]), known(ids[2]), known(ids[0])]);
    assert_eq!(store.all().await.len(), 2);
    assert_eq!(try_send(&store, one("a")).await.1, Some(ids[0]), "from wherever");
    store.delete(&JobFilter::ids([ids[0]]), false).await.unwrap();
    // Duplicates stay rejected, and finished jobs stay finished; neither takes the key again.
    assert_eq!(store.receive(&batch).await.unwrap(), [ids[0], ids[1], ids[2], ids[0]].map(known));
    assert_eq!(store.receive(&[submission(ids[3], one("a"))]).await.unwrap(), [stored(ids[3])]);
    assert_eq!(store.receive(&batch).await.unwrap(), [ids[0], ids[1], ids[2], ids[0]].map(known));
    assert_eq!(store.all().await.len(), 2);
    let changed = Submission { digest: [9; 32], ..submission(ids[2], one("a")) };
    assert_eq!(store.receive(&[changed]).await.unwrap(), [Received::Conflict(ids[2])]);
}

fn id_digest(id: JobId) -> [u8; 32] {
    let half = *id.as_uuid().as_bytes();
    std::array::from_fn(|n| half[n % 16])
}

/// `send` in SQL and the library use the same key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_and_the_library_keep_each_other_out() {
    let Some(db) = crate::support::postgres::Pg::<false>::create().await else { return };
    let store = db.jobs();
    let client = db.client().await;
    let sql = async |key: &str| -> JobId {
        let send = format!("select {}.send('kind', '1', unique_key => $1)", db.schema());
        JobId::from(client.query_one(&send, &[&key]).await.unwrap().get::<_, uuid::Uuid>(0))
    };
    let first = sql("ä").await;
    assert_eq!(sql("ä").await, first);
    assert_eq!(try_send(&store, one("ä")).await.1, Some(first));
    let (second, none) = try_send(&store, one("b")).await;
    assert_eq!((none, sql("b").await), (None, second));
    assert_eq!(store.all().await.len(), 2);
    assert_eq!(store.detail(first).await.options.unique, message(one("ä")).options.unique);
    store.delete(&JobFilter::ids([first]), false).await.unwrap();
    assert_ne!(sql("ä").await, first);
    assert!(client.query_one(&format!("select {}.send('k', '1', unique_key => '')", db.schema()), &[]).await.is_err());
}

/// The end of a job does not wait for a sender that is about to take its key over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_job_waits_for_no_sender() {
    let Some(db) = crate::support::postgres::Pg::<false>::create().await else { return };
    let store = db.jobs();
    let waiting = || job().unique(Unique::key("a").while_waiting());
    let (node, claimed) = store.running(waiting()).await;
    let mut sender = db.store().begin().await.unwrap();
    assert_eq!(sender.insert(&messages([waiting()]), None).await.unwrap().rows, 1);
    // The sender has locked the key.
    store.finish(node, &claimed).await;
    sender.rollback().await.unwrap();
    assert_eq!(try_send(&store, waiting()).await.1, None, "a key whose job is gone holds nobody up");
}

/// A key that names a job which asked for none, as an earlier job with the same id can leave it: nothing holds it, and that job stays. A period lasts
/// whatever becomes of the id.
async fn a_left_over_key_is_free_and_removes_no_job<T: crate::support::SqlDb>(db: &T) {
    let store = db.jobs();
    let ask = async |unique: Unique| {
        let sent = try_send(&store, job().unique(unique));
        tokio::time::timeout(Duration::from_secs(60), sent).await.expect("it goes round and round")
    };
    for key in [Unique::key("a"), Unique::key("b").while_waiting()] {
        for again in [key.clone(), key.clone().reject(), key.clone().replace()] {
            let other = store.send(job().unique(key.clone())).await;
            db.change("update {}job set options = '{ }'").await;
            let (id, holder) = ask(again.clone()).await;
            assert_eq!(holder, None, "{again:?}");
            assert_eq!(store.state(other).await, Some(JobState::Waiting), "{again:?}");
            assert_eq!(ask(key.clone()).await.1, Some(id), "{again:?}");
            store.delete(&JobFilter::default(), false).await.unwrap();
        }
    }
    let period = Unique::key("c").for_period(LATER);
    let first = store.send(job().unique(period.clone())).await;
    store.delete(&JobFilter::ids([first]), false).await.unwrap();
    assert_eq!(store.send(job().id(first)).await, first);
    assert_eq!(ask(period.replace()).await.1, Some(first));
    assert_eq!(store.state(first).await, Some(JobState::Waiting));
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_left_over_key_on_sqlite() {
    if let Some(db) = crate::support::sqlite::SqliteDb::create().await {
        a_left_over_key_is_free_and_removes_no_job(&db).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_left_over_key_on_postgres() {
    if let Some(db) = crate::support::postgres::Pg::<false>::create().await {
        a_left_over_key_is_free_and_removes_no_job(&db).await;
    }
}
