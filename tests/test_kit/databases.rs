//! A database for each test.

use std::time::Duration;

use jiff::Timestamp;
use jobwright::headers::SCHEDULED_AT;
use jobwright::testing::{TestDatabase, assert_sent};
use jobwright::{CommandExecutor, NewJob, NewSchedule, Outcome, Schedule};

use crate::support::environment::{PATIENCE, patient};
use crate::test_kit::kit::{Kit, committed};

pub(crate) async fn tests_do_not_see_each_other<S: Kit>(db: &TestDatabase<S>) {
    let other = S::database().await.unwrap();
    S::create_ledger(db).await;
    S::create_ledger(&other).await;
    let mut cx = other.messages().begin();
    S::note(cx.transaction().await.unwrap(), "other".to_owned()).await.unwrap();
    cx.send(NewJob::json("other", &())).unwrap();
    cx.commit().await.unwrap();
    assert_sent(&other.sent().await.unwrap()).times(1);
    assert_sent(&db.sent().await.unwrap()).never();
    assert_eq!((committed(&other).await, committed(db).await), (1, 0));
}

/// The executor polls only when woken: once for the existing jobs, and after that for timers.
pub(crate) async fn travelling_wakes_a_running_executor<S: Kit>(db: &TestDatabase<S>) {
    let (sender, mut ran) = tokio::sync::mpsc::unbounded_channel();
    let executor = CommandExecutor::builder(db.messages().clone())
        .config(patient())
        .handle("late", move |job| {
            sender.send(job.id).unwrap();
            async { Ok(Outcome::Done) }
        })
        .start()
        .await
        .unwrap();
    let later = db.messages().send(NewJob::json("late", &()).delay(Duration::from_secs(7200))).await.unwrap();
    let soon = db.messages().send(NewJob::json("late", &()).delay(Duration::from_secs(3600))).await.unwrap();
    for id in [soon, later] {
        db.travel(Duration::from_secs(3601)).await.unwrap();
        assert_eq!(tokio::time::timeout(PATIENCE, ran.recv()).await.unwrap(), Some(id));
    }
    executor.shutdown(PATIENCE).await.unwrap();
}

/// The executor polls only when woken.
pub(crate) async fn travelling_fires_the_schedules_of_a_running_executor<S: Kit>(db: &TestDatabase<S>) {
    let (sender, mut ran) = tokio::sync::mpsc::unbounded_channel();
    let executor = CommandExecutor::builder(db.messages().clone())
        .config(patient())
        .handle("daily", move |job| {
            sender.send(job.headers[SCHEDULED_AT].parse::<Timestamp>().unwrap()).unwrap();
            async { Ok(Outcome::Done) }
        })
        .start()
        .await
        .unwrap();
    let daily = NewSchedule::new("daily", Schedule::new("24h").unwrap(), NewJob::json("daily", &()));
    let mut next = db.messages().schedules().put(daily).await.unwrap().schedule.next_at.unwrap();
    for _ in 0..2 {
        db.travel(Duration::from_secs(24 * 3600)).await.unwrap();
        assert_eq!(tokio::time::timeout(PATIENCE, ran.recv()).await.unwrap(), Some(next));
        next = next.saturating_add(Duration::from_secs(24 * 3600)).unwrap();
    }
    executor.shutdown(PATIENCE).await.unwrap();
}

/// Also when the test ends with an open transaction, on the only thread of its runtime.
#[tokio::test]
async fn a_schema_is_gone_with_its_test() {
    let Some(url) = crate::support::postgres_url() else { return };
    let db = TestDatabase::postgres(&url).await.unwrap();
    let schema = db.config().schema.clone();
    let mut cx = db.messages().begin();
    cx.transaction()
        .await
        .unwrap()
        .batch_execute("create table mine (n int); insert into mine values (1)")
        .await
        .unwrap();
    drop(cx);
    drop(db);
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let left = client.query("select 1 from pg_namespace where nspname = $1", &[&schema]).await.unwrap();
    assert!(left.is_empty(), "{schema} is still there");
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_file_is_gone_with_its_test() {
    let db = TestDatabase::sqlite().await.unwrap();
    let directory = db.messages().store().path().parent().unwrap().to_owned();
    assert!(directory.is_dir());
    let mut cx = db.messages().begin();
    cx.transaction().await.unwrap().execute("create table mine (n integer)", ()).await.unwrap();
    drop(cx);
    drop(db);
    assert!(!directory.exists());
}
