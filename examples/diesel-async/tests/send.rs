//! The adapter and its service, on a database of its own for each test.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

use std::time::{Duration, Instant};

use diesel::result::DatabaseErrorKind;
use diesel_async::pooled_connection::deadpool::Object;
use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use jobwright::testing::{JobRun, RunOutcome, TestDatabase, assert_sent};
use jobwright::{CommandExecutor, ExecutorConfig, JobId, MessageServices, NewJob, Outcome, RetryPolicy, Unique};
use jobwright_example_diesel_async::send::{Error, Sent, send};
use jobwright_example_diesel_async::{Bank, ChargeOrder, Shop, connect, executor, is_paid, place};

/// Returns `None` where the tests have to do without a server.
async fn database() -> Option<(TestDatabase, Shop)> {
    if std::env::var("JOBWRIGHT_TEST_EMBEDDED_ONLY").is_ok_and(|value| value == "1") {
        return None;
    }
    let url = std::env::var("DATABASE_URL").expect("set DATABASE_URL");
    let db = TestDatabase::postgres(&url).await.unwrap();
    let shop = shop(&db).await;
    Some((db, shop))
}

async fn shop(db: &TestDatabase) -> Shop {
    Shop { pool: connect(db.config().url.expose()).await.unwrap(), bank: Bank { limit: 10_000 } }
}

/// Sends one job in a transaction of its own.
async fn send_alone(
    connection: &mut Object<AsyncPgConnection>,
    messages: &MessageServices,
    job: NewJob,
) -> Result<Sent, Error> {
    connection.transaction::<_, Error, _>(async |connection| send(connection, messages, job).await).await
}

#[tokio::test]
async fn an_order_is_charged_by_its_job() {
    let Some((db, shop)) = database().await else { return };
    let (order, job) = place(&shop, db.messages(), "Ada", 1999).await.unwrap();
    let sent = db.sent().await.unwrap();
    assert_sent(&sent).id(job).queue("billing").command(|charge: &ChargeOrder| charge.order == order).once();
    assert!(!is_paid(&shop, order).await.unwrap(), "its job has not run yet");
    let handlers = self::shop(&db).await;
    let mut runner = db.runner(|builder| executor(builder, handlers)).await.unwrap();
    assert_eq!(
        runner.drain().await.unwrap().expect_first_try().ran.len(),
        2,
        "the charge, and the thanks that it sends"
    );
    assert!(is_paid(&shop, order).await.unwrap());
}

#[tokio::test]
async fn a_declined_order_is_not_paid() {
    let Some((db, shop)) = database().await else { return };
    let (order, _) = place(&shop, db.messages(), "Ada", 20_000).await.unwrap();
    let handlers = self::shop(&db).await;
    let mut runner = db.runner(|builder| executor(builder, handlers)).await.unwrap();
    let summary = runner.drain().await.unwrap();
    let failed = |run: &JobRun| matches!(&run.end, RunOutcome::Failed { error, .. } if error.contains("declined"));
    assert!(summary.of("charge-order").all(failed), "{summary:?}");
    assert!(!is_paid(&shop, order).await.unwrap());
}

#[tokio::test]
async fn a_rollback_sends_nothing() {
    let Some((db, shop)) = database().await else { return };
    let mut connection = shop.pool.get().await.unwrap();
    let ended = connection
        .transaction::<(), Error, _>(async |connection| {
            let sent = send(connection, db.messages(), NewJob::json("report", &1)).await?;
            assert!(sent.is_sent);
            Err("the customer has changed their mind".into())
        })
        .await;
    assert_eq!(ended.unwrap_err().to_string(), "the customer has changed their mind");
    assert_sent(&db.sent().await.unwrap()).never();
}

#[tokio::test]
async fn an_error_that_the_caller_ignores_sends_nothing() {
    let Some((db, shop)) = database().await else { return };
    let mut connection = shop.pool.get().await.unwrap();
    // The server answers this commit with a rollback. diesel-async 0.9 returns `Ok` nevertheless.
    let _ = connection
        .transaction::<(), Error, _>(async |connection| {
            let _ = send(connection, db.messages(), NewJob::json("report", &1)).await?;
            assert!(connection.batch_execute("select 1 / 0").await.is_err());
            Ok(())
        })
        .await;
    assert_sent(&db.sent().await.unwrap()).never();
}

#[tokio::test]
async fn a_savepoint_that_is_rolled_back_takes_its_jobs_with_it() {
    let Some((db, shop)) = database().await else { return };
    let mut connection = shop.pool.get().await.unwrap();
    connection
        .transaction::<_, Error, _>(async |connection| {
            let inner = connection
                .transaction::<Sent, Error, _>(async |connection| {
                    let _ = send(connection, db.messages(), NewJob::json("inner", &1)).await?;
                    Err("not this one".into())
                })
                .await;
            assert!(inner.is_err());
            send(connection, db.messages(), NewJob::json("outer", &1)).await
        })
        .await
        .unwrap()
        .committed(db.messages());
    assert_sent(&db.sent().await.unwrap()).kind("outer").once();
    assert_sent(&db.sent().await.unwrap()).kind("inner").never();
}

#[tokio::test]
async fn all_options_arrive() {
    let Some((db, shop)) = database().await else { return };
    let mut connection = shop.pool.get().await.unwrap();
    let (hour, day) = (Duration::from_secs(3600), Duration::from_secs(24 * 3600));
    let retry = RetryPolicy::Fixed(Duration::from_secs(30));
    let id = JobId::new();
    let job = NewJob::json("report", &7)
        .id(id)
        .queue("reports")
        .priority(-5)
        .delay(hour)
        .ttl(day)
        .ordered("customer-7")
        .tenant("acme")
        .limit_key("printer")
        .max_attempts(3)
        .retry(retry.clone())
        .header("lang", "de")
        .unique(Unique::key("report-7"));
    assert_eq!(send_alone(&mut connection, db.messages(), job).await.unwrap().committed(db.messages()), id);
    let sent = db.sent().await.unwrap();
    assert_sent(&sent)
        .kind("report")
        .json(&7)
        .id(id)
        .queue("reports")
        .priority(-5)
        .due_later()
        .due_within(hour)
        .ttl(day)
        .ordered("customer-7")
        .tenant("acme")
        .limit_key("printer")
        .max_attempts(3)
        .retry(retry)
        .header("lang", "de")
        .unique(Unique::key("report-7"))
        .once();
}

#[tokio::test]
async fn a_duplicate_is_answered_with_the_job_that_holds_the_key() {
    let Some((db, shop)) = database().await else { return };
    let mut connection = shop.pool.get().await.unwrap();
    let job = |unique| NewJob::json("report", &7).unique(unique);
    let first = send_alone(&mut connection, db.messages(), job(Unique::key("7"))).await.unwrap();
    assert!(first.is_sent);

    let kept = send_alone(&mut connection, db.messages(), job(Unique::key("7"))).await.unwrap();
    assert_eq!((kept.is_sent, kept.id), (false, first.id));

    let rejected = send_alone(&mut connection, db.messages(), job(Unique::key("7").reject())).await.unwrap_err();
    let rejected = rejected.downcast_ref::<diesel::result::Error>().unwrap();
    let diesel::result::Error::DatabaseError(DatabaseErrorKind::UniqueViolation, why) = rejected else {
        panic!("{rejected:?}")
    };
    assert!(why.message().contains(&first.id.to_string()), "{}", why.message());

    let replaced = send_alone(&mut connection, db.messages(), job(Unique::key("7").replace())).await.unwrap();
    assert!(replaced.is_sent && replaced.id != first.id);
    assert_sent(&db.sent().await.unwrap()).id(replaced.id).once();
    assert_sent(&db.sent().await.unwrap()).once();
}

#[tokio::test]
async fn a_given_id_is_sent_once() {
    let Some((db, shop)) = database().await else { return };
    let mut connection = shop.pool.get().await.unwrap();
    let id = JobId::new();
    for _ in 0..2 {
        let sent = send_alone(&mut connection, db.messages(), NewJob::json("report", &7).id(id)).await.unwrap();
        assert_eq!(sent.committed(db.messages()), id);
    }
    assert_sent(&db.sent().await.unwrap()).id(id).once();
    // It is that of another job.
    let other = send_alone(&mut connection, db.messages(), NewJob::json("other", &7).id(id)).await.unwrap_err();
    assert!(other.to_string().contains("was sent before with another kind"), "{other}");
}

#[tokio::test]
async fn an_invalid_job_costs_no_statement() {
    let Some((db, shop)) = database().await else { return };
    let mut connection = shop.pool.get().await.unwrap();
    connection
        .transaction::<_, Error, _>(async |connection| {
            let refused = send(connection, db.messages(), NewJob::json("report", &7).queue("")).await.unwrap_err();
            assert!(refused.downcast_ref::<jobwright::Error>().unwrap().is_invalid(), "{refused}");
            // The transaction has not failed.
            send(connection, db.messages(), NewJob::json("report", &7)).await
        })
        .await
        .unwrap()
        .committed(db.messages());
    assert_sent(&db.sent().await.unwrap()).once();
}

/// The executor is in another process, as far as it can tell, and polls each ten minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executors_elsewhere_are_woken() {
    let Some((db, shop)) = database().await else { return };
    let elsewhere = MessageServices::postgres(db.config()).await.unwrap();
    let executor = CommandExecutor::builder(elsewhere)
        .handle("report", |_| async { Ok(Outcome::Done) })
        .queue("reports", 2)
        .config(ExecutorConfig::default().poll_interval(Duration::from_secs(600)))
        .start()
        .await
        .unwrap();
    let mut connection = shop.pool.get().await.unwrap();
    let job = || NewJob::json("report", &7).queue("reports");

    // Time for its first polls.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let unnoticed = send_alone(&mut connection, db.messages(), job()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_sent(&db.sent().await.unwrap()).id(unnoticed.id).once();

    let woken = send_alone(&mut connection, db.messages(), job()).await.unwrap();
    let started = Instant::now();
    let id = woken.committed(db.messages());
    assert!(db.messages().wait_for_end(id, Duration::from_secs(20)).await.unwrap().is_over());
    println!("woken and done after {:?}", started.elapsed());
    // The hint is for the queue.
    assert!(db.messages().wait_for_end(unnoticed.id, Duration::from_secs(20)).await.unwrap().is_over());
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
}
