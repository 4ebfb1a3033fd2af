//! PostgreSQL: key rows, of which one statement takes many, and one frees many.

use jobwright::Store;
use jobwright::admin::{JobFilter, JobState};
use jobwright::internal::Fence;
use jobwright::internal::engine::{GroupClaim, OwnedInsert, UnitOfWork};
use jobwright::{Job, JobId, NewJob, Unique};

use crate::conformance::groups::sound;
use crate::conformance::unique_key_release::{MANY, is_free, many};
use crate::conformance::uniques::one;
use crate::support::jobs::{LATER, claim_number, fences, job, messages, preclaim, set};
use crate::support::postgres::Pg;
use crate::support::{Jobs, TestDb, eventually};

async fn keys<const POOLED: bool>(db: &Pg<POOLED>) -> i64 {
    db.client().await.query_one("select count(*) from unique_key", &[]).await.unwrap().get(0)
}

/// A leftover key blocks nothing, so it would go unnoticed, but the table would grow.
pub(crate) async fn none_is_left<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let claimed = async || {
        store.send_all(many()).await;
        store.take(node, MANY).await
    };
    let batch = claimed().await;
    assert_eq!(keys(db).await, 20);
    store.complete(node, &fences(&batch)).await.unwrap();
    assert_eq!(keys(db).await, 0);
    // Moved, and so found by their ids.
    let batch = claimed().await;
    db.client().await.batch_execute("vacuum full job").await.unwrap();
    assert_eq!(store.complete(node, &fences(&batch)).await.unwrap().len(), MANY);
    assert_eq!(keys(db).await, 0);
    // In any other way.
    claimed().await;
    db.raw("delete from {schema}.job").await;
    assert_eq!(keys(db).await, 0);
    // Preclaimed.
    let batch = messages(many());
    let owned = preclaim(node, &batch);
    let born = store.insert(&batch, Some(&owned)).await.unwrap().owned;
    let fence = |row: &OwnedInsert| {
        let mut fence = Fence::new(row.id, owned.claim.get());
        fence.location = row.location;
        fence
    };
    let ends: Vec<Fence> = born.iter().map(fence).collect();
    assert_eq!(store.complete(node, &ends).await.unwrap().len(), MANY);
    assert_eq!(keys(db).await, 0);
}

/// A unique job of a group ends, and the same statement claims the next one.
pub(crate) async fn with_the_next_of_a_group<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    store.send_all((0..3).map(|n| one(&format!("k{n}")).exclusive("g"))).await;
    store.admit_all().await;
    let first = store.take_one(node).await;
    let mut turn = GroupClaim::after_job("g".to_owned(), "default", first.id, JobId::new()).wanted(2);
    let kinds = ["kind".to_owned()];
    let next = store
        .complete_and_claim_next(node, claim_number(), &[first.fence()], &[turn.clone()], &kinds)
        .await
        .unwrap()
        .next;
    assert_eq!(next.len(), 2);
    assert_eq!(keys(db).await, 2);
    turn.taken(&next[1]);
    let end =
        store.complete_and_claim_next(node, claim_number(), &fences(&next), &[turn.wanted(0)], &kinds).await.unwrap();
    assert_eq!((end.accepted.len(), keys(db).await), (2, 0));
    sound(&store).await;
}

/// Third-party SQL may put an id into two tables: then removing one row does not free the key.
pub(crate) async fn an_id_in_two_tables_keeps_its_key<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    store.send_all((0..3).map(|n| one(&format!("k{n}")))).await;
    let claimed = store.take(node, 3).await;
    db.raw(&format!(
        "insert into {{schema}}.dead_letter_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, reason, options)
         select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, 'copied', options from {{schema}}.job
         where id = '{}'",
        claimed[1].id
    ))
    .await;
    assert_eq!(store.complete(node, &fences(&claimed)).await.unwrap().len(), 3);
    for (n, free) in [true, false, true].into_iter().enumerate() {
        assert_eq!(is_free(&store, &format!("k{n}")).await, free, "k{n}");
    }
    store.delete(&JobFilter::ids([claimed[1].id]), false).await.unwrap();
    assert_eq!(keys(db).await, 0);
}

/// An invalid key was written by hand into a job's options: neither this job's end fails, nor others in the batch.
pub(crate) async fn keys_that_are_none<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let node = store.node().await;
    let wrong = ["", "zz", "abc", "AB", "ab cd", "é", "'"];
    let others = async || {
        let sent = store.send_all((0..=wrong.len()).map(|n| one(&format!("k{n}")))).await;
        for (id, key) in sent.iter().zip(wrong) {
            let term = serde_json::json!({ "unique": { "key": key, "hold": "done", "conflict": "keep" } });
            let term = term.to_string().replace('\'', "''");
            db.raw(&format!("update {{schema}}.job set options = '{term}' where id = '{id}'")).await;
        }
        sent
    };
    let sent = others().await;
    let claimed: Vec<Job> = store.take(node, 100).await;
    assert_eq!(claimed.len(), sent.len());
    assert_eq!(set(store.complete(node, &fences(&claimed)).await.unwrap()), set(sent));
    let sent = others().await;
    assert_eq!(store.delete(&JobFilter::ids(sent.clone()), false).await.unwrap().total(), sent.len() as u64);
    // Such jobs block nothing.
    assert_eq!(store.send_all((0..wrong.len()).map(|n| one(&format!("k{n}")))).await.len(), wrong.len());
}

/// A slower sender finds one of its keys taken by an uncommitted transaction. It waits for that, and then asks for each key singly. Keys that it took
/// before the wait are not its own until then.
pub(crate) async fn a_sender_that_waits_for_a_key_holds_no_other_key<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    for commits in [true, false] {
        let mut first = db.store().begin().await.unwrap();
        let taken = messages([one("k7")]);
        first.insert(&taken, None).await.unwrap();
        let batch = messages(many());
        let sending = tokio::spawn({
            let (store, batch) = (store.clone(), batch.clone());
            async move { store.insert(&batch, None).await.unwrap() }
        });
        let client = db.client().await;
        let waiting = "select exists (select from pg_locks l join pg_stat_activity a using (pid)
                                      where not l.granted and a.query like '%' || $1 || '%')";
        eventually(LATER, async || {
            assert!(!sending.is_finished(), "it did not wait for the first");
            client.query_one(waiting, &[&db.schema()]).await.unwrap().get(0)
        })
        .await;
        if commits {
            // The first may ask for any key that the other has taken and not committed: they do not deadlock.
            assert_eq!(first.insert(&messages((0..4).map(|n| one(&format!("x{n}")))), None).await.unwrap().rows, 4);
            first.commit().await.unwrap();
        } else {
            first.rollback().await.unwrap();
        }
        let inserted = sending.await.unwrap();
        let duplicates: Vec<(JobId, JobId)> = if commits { vec![(batch[7].id, taken[0].id)] } else { Vec::new() };
        assert_eq!((inserted.rows, inserted.duplicates.clone()), ((MANY - duplicates.len()) as u64, duplicates));
        assert_eq!(store.count(JobState::Waiting).await, if commits { MANY + 4 } else { MANY });
        db.clear().await;
    }
}

/// Senders of many overlapping keys, in different orders, while jobs end in batches: no deadlock, and no two waiting jobs of one key. Half of the
/// keys are taken over while their jobs run, and so just when these end.
pub(crate) async fn senders_and_ends_of_many<const POOLED: bool>(db: &Pg<POOLED>) {
    const KEYS: usize = 60;
    fn of(n: usize) -> NewJob {
        let key = Unique::key(format!("k{n}"));
        job().unique(if n.is_multiple_of(2) { key } else { key.while_waiting() })
    }
    let store = db.jobs();
    let node = store.node().await;
    let mut senders = tokio::task::JoinSet::new();
    for n in 0..4 {
        let store = Jobs(db.reopen().await.engine());
        senders.spawn(async move {
            let mut sent = 0;
            for round in 0..15 {
                let mut keys: Vec<usize> = (0..KEYS).collect();
                keys.rotate_left((n * 17 + round * 11) % KEYS);
                keys.truncate(MANY);
                if n % 2 == 0 {
                    keys.reverse();
                }
                let batch = messages(keys.into_iter().map(of));
                sent += store.insert(&batch, None).await.unwrap().rows;
            }
            sent
        });
    }
    let client = db.client().await;
    let twice = "select count(*) from (select from job where lock_owner is null
                                             group by options -> 'unique' ->> 'key' having count(*) > 1) twice";
    let (mut sent, mut done) = (0, 0);
    while !senders.is_empty() {
        let claimed = store.take(node, MANY).await;
        done += store.complete(node, &fences(&claimed)).await.unwrap().len() as u64;
        assert_eq!(client.query_one(twice, &[]).await.unwrap().get::<_, i64>(0), 0);
        while let Some(joined) = senders.try_join_next() {
            sent += joined.unwrap();
        }
        tokio::task::yield_now().await;
    }
    loop {
        let claimed = store.take(node, 100).await;
        if claimed.is_empty() {
            break;
        }
        done += store.complete(node, &fences(&claimed)).await.unwrap().len() as u64;
    }
    assert_eq!((done, done >= KEYS as u64), (sent, true));
    assert_eq!(store.send_all((0..KEYS).map(of)).await.len(), KEYS, "all are free");
}
