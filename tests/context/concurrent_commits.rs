//! Contexts that send at the same time, each without a transaction.

use std::collections::HashSet;

use jobwright::{ErrorKind, JobId, MessageServices, NewJob};
use serde_json::value::RawValue;

use crate::context::services::{Recording, Seen};
use crate::support::environment::{PATIENCE, World};
use crate::support::jobs::{LATER, job, jobs};
use crate::support::postgres::Pg;
use crate::support::{TestDb, eventually};

/// More senders than any two statements could take one by one while the others wait.
const SENDERS: usize = 60;

pub(crate) async fn concurrent_sends_store_each_job_once<W: World>(db: &W) {
    let messages = db.messages().await;
    let mut senders = Vec::new();
    for n in 0..SENDERS * 5 {
        let messages = messages.clone();
        senders.push(tokio::spawn(async move {
            let mut cx = messages.begin();
            let mut ids = Vec::new();
            for part in 0..=n % 3 {
                let job = job().header("n", n.to_string());
                ids.push(cx.send(if part == 1 { job.delay(LATER) } else { job }).unwrap());
            }
            cx.commit().await.unwrap();
            ids
        }));
    }
    let mut sent: Vec<JobId> = Vec::new();
    for sender in senders {
        sent.extend(sender.await.unwrap());
    }
    let there: Vec<JobId> = db.jobs().all().await.iter().map(|row| row.id).collect();
    assert_eq!(there.len(), sent.len());
    assert_eq!(there.into_iter().collect::<HashSet<_>>(), sent.into_iter().collect());
}

/// One context's jobs stay adjacent and in order, and so do the jobs that a context sends in turn.
pub(crate) async fn each_keeps_its_order<W: World>(db: &W) {
    let messages = db.messages().await;
    let mut senders = Vec::new();
    for _ in 0..20 {
        let messages = messages.clone();
        senders.push(tokio::spawn(async move {
            let mut ids = Vec::new();
            for _ in 0..5 {
                let mut cx = messages.begin();
                ids.extend(jobs(2).into_iter().map(|job| cx.send(job).unwrap()));
                cx.commit().await.unwrap();
            }
            ids
        }));
    }
    let mut sent = Vec::new();
    for sender in senders {
        sent.push(sender.await.unwrap());
    }
    let mut all = db.jobs().all().await;
    all.sort_by_key(|row| row.seq);
    for ids in sent {
        let found: Vec<JobId> = all.iter().map(|row| row.id).filter(|id| ids.contains(id)).collect();
        assert_eq!(found, ids);
    }
}

/// Blocks inserts until it is dropped or committed. The services have read the rules just before that: otherwise each commit would ask for them
/// first, and might come too late to wait with the others.
async fn held(db: &Pg<false>, messages: &MessageServices) -> tokio_postgres::Client {
    let client = db.client().await;
    messages.send(job()).await.unwrap();
    db.clear().await;
    client.batch_execute("begin; lock table job in share row exclusive mode").await.unwrap();
    client
}

async fn two_wait(db: &Pg<false>) {
    let client = db.client().await;
    eventually(PATIENCE, async || {
        let sql = "select count(*) from pg_stat_activity where application_name = $1 and wait_event_type = 'Lock'";
        client.query_one(sql, &[&db.schema()]).await.unwrap().get::<_, i64>(0) == 2
    })
    .await;
}

// On one thread, so that the senders arrive in the order in which they were created.
#[tokio::test]
async fn waiting_sends_share_a_commit() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let lock = held(&db, &messages).await;
    share_a_commit(&db, lock, &messages).await;
}

/// The same with a service of the program around ours: a service that asks for no transaction needs none.
#[tokio::test]
async fn sends_through_a_wrapping_service_share_a_commit() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let seen = Seen::default();
    let messages = db.messages().await;
    let lock = held(&db, &messages).await;
    share_a_commit(&db, lock, &Recording::around(messages, "it", &seen)).await;
    assert_eq!(seen.take().len(), 3 * SENDERS);
}

async fn share_a_commit(db: &Pg<false>, lock: tokio_postgres::Client, messages: &MessageServices) {
    let senders: Vec<_> = (0..SENDERS)
        .map(|_| {
            let mut cx = messages.begin();
            cx.send(job()).unwrap();
            tokio::spawn(cx.commit())
        })
        .collect();
    two_wait(db).await;
    lock.batch_execute("commit").await.unwrap();
    for sender in senders {
        sender.await.unwrap().unwrap();
    }
    let row = lock.query_one("select count(*), count(distinct xmin::text) from job", &[]).await.unwrap();
    let (rows, commits): (i64, i64) = (row.get(0), row.get(1));
    assert_eq!((rows, commits), (SENDERS as i64, 3), "two, and all who waited");
}

#[tokio::test]
async fn the_one_at_fault_fails_alone() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let lock = held(&db, &messages).await;
    // Half of a surrogate pair: JSON's grammar allows it, PostgreSQL does not.
    let bad = RawValue::from_string(r#""\ud800""#.to_owned()).unwrap();
    let senders: Vec<_> = (0..SENDERS)
        .map(|n| {
            let mut cx = messages.begin();
            cx.send(if n == 30 { NewJob::json("kind", &bad) } else { job() }).unwrap();
            tokio::spawn(cx.commit())
        })
        .collect();
    two_wait(&db).await;
    lock.batch_execute("commit").await.unwrap();
    for (n, sender) in senders.into_iter().enumerate() {
        let answer = sender.await.unwrap();
        if n == 30 {
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::Database);
        } else {
            answer.unwrap();
        }
    }
    assert_eq!(db.jobs().all().await.len(), SENDERS - 1);
}

#[tokio::test]
async fn a_cancelled_send_does_not_cancel_its_batch() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let lock = held(&db, &messages).await;
    let mut ids = Vec::new();
    let mut senders: Vec<_> = (0..SENDERS)
        .map(|_| {
            let mut cx = messages.begin();
            ids.push(cx.send(job()).unwrap());
            tokio::spawn(cx.commit())
        })
        .collect();
    two_wait(&db).await;
    // Some that wait, and then one whose statement is in flight.
    let gone = [10, 11, 12, 59, 0];
    for n in gone {
        senders[n].abort();
        assert!((&mut senders[n]).await.unwrap_err().is_cancelled(), "{n}");
    }
    lock.batch_execute("commit").await.unwrap();
    let there = async || db.jobs().all().await.iter().map(|row| row.id).collect::<HashSet<_>>();
    eventually(PATIENCE, async || there().await.len() >= SENDERS - gone.len()).await;
    let there = there().await;
    for (n, id) in ids.iter().enumerate() {
        match n {
            // Whether it was written is unknown.
            0 => {}
            n => assert_eq!(there.contains(id), !gone.contains(&n), "{n}"),
        }
    }
}
