//! Transactions of sqlx: those of the caller, and those of contexts on the caller's pool. Compiled for each version, which is the parent module.

use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::{
    CommandExecutor, Error, ErrorKind, FlushInto, JobError, KindOptions, MessageService, NewJob, Outcome, Result,
    RetryAdvice, RetryPolicy, Written, async_trait,
};

use super::version::db::pool;
use super::version::sqlx::{self, Connection as _};
use super::version::{Sqlx, SqlxDb, services, text};
use crate::context::services::{Audit, Refuses};
use crate::support::environment::{PATIENCE, World, quick};
use crate::support::jobs::{LATER, job};
use crate::support::postgres::Pg;
use crate::support::proxy::Proxy;
use crate::support::{TestDb, eventually, pgbouncer_url};

async fn write(connection: &mut sqlx::PgConnection, line: &str) {
    sqlx::query("insert into ledger (line) values ($1)").bind(line).execute(connection).await.unwrap();
}

/// Returns how many lines and jobs are in the database.
async fn kept(db: &SqlxDb) -> (usize, usize) {
    (db.ledger().await.len(), db.jobs().all().await.len())
}

#[tokio::test]
async fn enlisted_in_a_transaction_of_the_caller() {
    let Some(db) = SqlxDb::with_ledger().await else { return };
    let messages = db.messages().await;
    let pool = messages.store().pool().clone();
    let mut ear = db.aside().ear().await;
    for commit in [false, true] {
        let mut transaction = pool.begin().await.unwrap();
        write(&mut transaction, "written").await;
        let mut enlisted = messages.enlist(&mut transaction);
        let id = enlisted.send(job().queue("enlisted")).unwrap();
        enlisted.send(job().delay(LATER)).unwrap();
        assert!(enlisted.send(NewJob::json("", &1)).unwrap_err().is_invalid());
        assert_eq!(enlisted.pending().len(), 2);
        let flushed = enlisted.flush().await.unwrap();
        assert_eq!(kept(&db).await, (0, 0), "visible before the commit");
        if !commit {
            transaction.rollback().await.unwrap();
            assert_eq!(kept(&db).await, (0, 0));
            continue;
        }
        transaction.commit().await.unwrap();
        assert_eq!(kept(&db).await, (1, 2));
        assert_eq!(db.jobs().all().await[0].id, id);
        // Only now.
        messages.send(job().queue("before")).await.unwrap();
        assert_eq!(ear.next().await.0, "qbefore");
        flushed.committed();
        let heard = [ear.next().await.0, ear.next().await.0];
        assert!(heard.contains(&"qenlisted".to_owned()) && heard.contains(&"t".to_owned()), "{heard:?}");
    }
}

/// In a savepoint of the caller, the jobs share the savepoint's fate.
#[tokio::test]
async fn enlisted_in_a_savepoint_of_the_caller() {
    let Some(db) = SqlxDb::with_ledger().await else { return };
    let messages = db.messages().await;
    let mut transaction = messages.store().pool().begin().await.unwrap();
    write(&mut transaction, "written").await;
    for keep in [false, true] {
        let mut inner = transaction.begin().await.unwrap();
        let mut enlisted = messages.enlist(&mut inner);
        enlisted.send(job()).unwrap();
        let flushed = enlisted.flush().await.unwrap();
        if keep {
            inner.commit().await.unwrap();
            flushed.committed();
        } else {
            inner.rollback().await.unwrap();
        }
    }
    transaction.commit().await.unwrap();
    assert_eq!(kept(&db).await, (1, 1));
}

/// After an error of a service the transaction goes on, without any of the service's writes.
#[tokio::test]
async fn a_refused_flush_leaves_the_transaction_as_it_was() {
    let Some(db) = SqlxDb::with_ledger().await else { return };
    for refuses in [Refuses::BeforeTheInner, Refuses::AfterTheInner] {
        let messages = Audit::<SqlxDb>::around(db.messages().await, refuses);
        let mut transaction = messages.store().pool().begin().await.unwrap();
        write(&mut transaction, &format!("kept {refuses:?}")).await;
        let mut enlisted = messages.enlist(&mut transaction);
        enlisted.send(job()).unwrap();
        assert_eq!(enlisted.flush().await.err().unwrap().kind(), ErrorKind::Refused);
        transaction.commit().await.unwrap();
    }
    assert_eq!(kept(&db).await, (2, 0));
}

/// sqlx reports each of these commits as a success.
#[tokio::test]
async fn what_did_not_commit_is_an_error() {
    let Some(db) = SqlxDb::with_ledger().await else { return };
    let messages = db.messages().await;
    for ended_by in ["select 1/0", "rollback", "commit"] {
        let mut cx = messages.begin();
        let transaction = cx.transaction().await.unwrap();
        write(transaction, ended_by).await;
        let _ = sqlx::raw_sql(text(ended_by)).execute(&mut **transaction).await;
        let error = cx.commit().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Aborted, "{ended_by}: {error}");
    }
    let lines: Vec<String> = db.ledger().await.into_keys().collect();
    assert_eq!(lines, ["commit"], "and this one the caller has committed");
    // The pool's connections are fine.
    for _ in 0..20 {
        let mut cx = messages.begin();
        cx.transaction().await.unwrap();
        cx.send(job()).unwrap();
        cx.commit().await.unwrap();
    }
}

/// sqlx rolls a whole transaction back where a `begin` in it fails or is cancelled. What follows must not be committed statement by statement: neither the
/// messages of a context nor the end of a handler's job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_begin_that_failed_nothing_is_committed() {
    let Some(db) = SqlxDb::with_ledger().await else { return };
    let messages = db.messages().await;
    for cancelled in [true, false] {
        let mut cx = messages.begin();
        cx.send(job()).unwrap();
        lose(cx.transaction().await.unwrap(), cancelled).await;
        let error = cx.commit().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Aborted, "cancelled: {cancelled}, {error}");
        assert_eq!(kept(&db).await, (0, 0), "cancelled: {cancelled}");

        let mut transaction = messages.store().pool().begin().await.unwrap();
        lose(&mut transaction, cancelled).await;
        let mut enlisted = messages.enlist(&mut transaction);
        enlisted.send(job()).unwrap();
        assert_eq!(enlisted.flush().await.err().unwrap().kind(), ErrorKind::Aborted);
        drop(transaction);
        assert_eq!(kept(&db).await, (0, 0), "cancelled: {cancelled}");
    }
    // A handler of which nothing is kept has failed, and its job is there.
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .kind_options("loses", KindOptions::default().retry(RetryPolicy::Fixed(Duration::ZERO)))
        .handle_with("loses", |cx| {
            Box::pin(async move {
                let cancelled = cx.job().attempt == 1;
                cx.send(NewJob::json("child", &1))?;
                lose(cx.transaction().await?, cancelled).await;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    let id = messages.send(NewJob::json("loses", &1).max_attempts(2)).await.unwrap();
    db.reaches(id, JobState::Dead).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!(kept(&db).await, (0, 1), "the job, and neither its row nor its child");
}

/// Writes, and then makes sqlx roll the transaction back.
async fn lose(connection: &mut sqlx::PgConnection, cancelled: bool) {
    write(connection, "undone").await;
    if cancelled {
        // A step that takes too long is given up, and then what was to follow it.
        let mut step = Box::pin(sqlx::Executor::execute(&mut *connection, "select pg_sleep(0.5)"));
        assert!(futures_util::poll!(&mut step).is_pending());
        drop(step);
        let mut begun = Box::pin(connection.begin());
        assert!(futures_util::poll!(&mut begun).is_pending());
    } else {
        sqlx::query("select 1/0").execute(&mut *connection).await.unwrap_err();
        connection.begin().await.unwrap_err();
    }
}

/// A savepoint whose end is missing is an error, and not half of a commit.
#[tokio::test]
async fn an_open_savepoint_is_refused() {
    let Some(db) = SqlxDb::with_ledger().await else { return };
    let messages = db.messages().await;
    let mut cx = messages.begin();
    cx.send(job()).unwrap();
    let transaction = cx.transaction().await.unwrap();
    write(transaction, "undone").await;
    std::mem::forget(transaction.begin().await.unwrap());
    let error = cx.commit().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Aborted && error.to_string().contains("savepoint"), "{error}");
    assert_eq!(kept(&db).await, (0, 0));
    messages.begin().transaction().await.unwrap();
}

/// The pool's session and the engine's differ in their zones and styles of dates: sqlx sets its own.
#[tokio::test]
async fn a_role_with_a_zone_of_its_own() {
    let Some(db) = SqlxDb::with_ledger().await else { return };
    let (mut config, role) = (db.aside().config(), format!("r{}", uuid::Uuid::new_v4().simple()));
    let aside = db.aside().client().await;
    let create = format!(
        "create role {role} superuser login; alter role {role} set timezone = 'Asia/Kolkata'; alter role {role} set datestyle = 'SQL, DMY'"
    );
    aside.batch_execute(&create).await.unwrap();
    config = config.clone().with_url(config.url.expose().replacen("postgres@", &format!("{role}@"), 1));
    let opened = services(pool(&config).await, &config).await;
    aside.batch_execute(&format!("drop role {role}")).await.unwrap();
    opened.unwrap();
}

/// A `begin` in a transaction of a context is a savepoint, and ends nothing.
#[tokio::test]
async fn a_savepoint_in_a_context() {
    let Some(db) = SqlxDb::with_ledger().await else { return };
    let messages = db.messages().await;
    let mut cx = messages.begin();
    let transaction = cx.transaction().await.unwrap();
    let mut inner = transaction.begin().await.unwrap();
    write(&mut inner, "undone").await;
    inner.rollback().await.unwrap();
    let mut inner = transaction.begin().await.unwrap();
    write(&mut inner, "kept").await;
    inner.commit().await.unwrap();
    drop(transaction.begin().await.unwrap());
    assert_eq!(kept(&db).await, (0, 0), "visible before the commit");
    cx.send(job()).unwrap();
    cx.commit().await.unwrap();
    assert_eq!(db.ledger().await.into_keys().collect::<Vec<_>>(), ["kept"]);
    assert_eq!(kept(&db).await, (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_whose_answer_got_lost_are_found_out() {
    let Some(db) = SqlxDb::with_ledger().await else { return };
    let proxy = Proxy::start(db.aside().address()).await;
    let config = db.aside().config_by(proxy.address).call_timeout(Duration::from_millis(1500));
    let messages = services(pool(&config).await, &config).await.unwrap();
    for arrives in [true, false] {
        let mut cx = messages.begin();
        cx.send(job()).unwrap();
        write(cx.transaction().await.unwrap(), "written").await;
        if arrives {
            proxy.swallow_answer_to("COMMIT");
            cx.commit().await.unwrap();
        } else {
            proxy.swallow("COMMIT");
            let error = cx.commit().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
        }
        assert_eq!(kept(&db).await, (1, 1), "arrives: {arrives}");
    }
    assert_eq!(proxy.swallowed(), 2);
}

#[tokio::test]
async fn a_connection_killed_before_the_commit_is_an_error() {
    let Some(db) = SqlxDb::with_ledger().await else { return };
    let messages = db.messages().await;
    for with_messages in [false, true] {
        let mut cx = messages.begin();
        if with_messages {
            cx.send(job()).unwrap();
        }
        let transaction = cx.transaction().await.unwrap();
        write(transaction, "undone").await;
        let kill = sqlx::query("select pg_terminate_backend(pg_backend_pid())");
        kill.execute(&mut **transaction).await.unwrap_err();
        let error = cx.commit().await.unwrap_err();
        // It is certain that nothing was kept: COMMIT was never sent.
        assert_ne!(error.kind(), ErrorKind::CommitUnknown, "{error}");
        assert!(error.is_retryable(), "{error}");
        assert_eq!(kept(&db).await, (0, 0));
    }
    messages.send(job()).await.unwrap();
}

#[tokio::test]
async fn a_pool_to_another_database_is_refused() {
    let Some(db) = SqlxDb::with_ledger().await else { return };
    let config = db.aside().config();
    let other: sqlx::postgres::PgConnectOptions = config.url.expose().parse().unwrap();
    let elsewhere = sqlx::PgPool::connect_with(other.database("template1")).await.unwrap();
    let error = services(elsewhere, &config).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(
        error.to_string().contains("template1") && error.to_string().contains("same database of the same server"),
        "{error}"
    );
}

#[tokio::test]
async fn a_pool_without_a_free_connection_is_busy() {
    let Some(db) = SqlxDb::with_ledger().await else { return };
    let config = db.aside().config();
    let small = sqlx::postgres::PgPoolOptions::new().max_connections(1).acquire_timeout(Duration::from_millis(200));
    let pool = small.connect(config.url.expose()).await.unwrap();
    let messages = services(pool.clone(), &config).await.unwrap();
    let held = pool.acquire().await.unwrap();
    let error = messages.begin().transaction().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.to_string().contains("`max_connections` of the application's pool"), "{error}");
    drop(held);
    messages.begin().transaction().await.unwrap();
    pool.close().await;
    let error = messages.begin().transaction().await.unwrap_err();
    assert!(error.to_string().contains("the application has closed its pool"), "{error}");
    // The engine has connections of its own.
    messages.send(job()).await.unwrap();
}

/// Sends its jobs if the database takes them, and goes on if it does not.
struct BestEffort(Box<dyn MessageService<Sqlx>>);

#[async_trait]
impl MessageService<Sqlx> for BestEffort {
    wraps!(0: Sqlx);

    async fn flush(&mut self, into: &mut FlushInto<'_, Sqlx>) -> Result<Written> {
        Ok(self.0.flush(into).await.unwrap_or_default())
    }
}

/// The refused row has aborted the transaction, and sqlx would report its commit as a success.
#[tokio::test]
async fn an_error_that_a_service_hides_fails_the_commit() {
    let Some(db) = SqlxDb::with_ledger().await else { return };
    db.aside().raw("alter table {schema}.job add constraint refuses check (kind <> 'refused')").await;
    let messages = db.messages().await.wrap(BestEffort);
    let mut cx = messages.begin();
    write(cx.transaction().await.unwrap(), "written").await;
    cx.send(NewJob::json("refused", &1)).unwrap();
    let error = cx.commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
    assert_eq!(kept(&db).await, (0, 0));
    messages.send(job()).await.unwrap();
}

/// sqlx itself would wait for the end of the statement before it gives the connection back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_was_given_up_keeps_no_connection_of_the_pool() {
    let Some(db) = SqlxDb::with_ledger().await else { return };
    let config = db.aside().config().call_timeout(Duration::from_secs(2));
    let small = sqlx::postgres::PgPoolOptions::new().max_connections(1).acquire_timeout(Duration::from_secs(60));
    let pool = small.connect(config.url.expose()).await.unwrap();
    let messages = services(pool, &config).await.unwrap();
    let insert = format!("insert into {}.ledger (line) values ('late')", db.aside().schema());
    // A `begin` that is given up too makes sqlx end the transaction itself, behind the statement.
    for begins in [false, true] {
        let lock = db.aside().hold("lock table {schema}.ledger in access exclusive mode").await;
        let mut cx = messages.begin();
        let transaction = cx.transaction().await.unwrap();
        let waits = sqlx::query(text(&insert)).execute(&mut **transaction);
        tokio::time::timeout(Duration::from_millis(300), waits).await.expect_err("it did not wait");
        if begins {
            let begun = tokio::time::timeout(Duration::from_millis(300), transaction.begin()).await;
            assert!(begun.is_err(), "it did not wait");
        }
        drop(cx);
        // The lock is still there.
        eventually(PATIENCE, async || messages.begin().transaction().await.is_ok()).await;
        lock.release().await;
    }
}

/// The context would commit the half of a job that other code has left.
#[tokio::test]
async fn a_transaction_that_was_left_open_is_rolled_back() {
    let Some(db) = SqlxDb::with_ledger().await else { return };
    let config = db.aside().config();
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect(config.url.expose()).await.unwrap();
    let messages = services(pool.clone(), &config).await.unwrap();
    let half = format!("begin; insert into {}.ledger (line) values ('half')", db.aside().schema());
    for left in [half.as_str(), "begin; select 1/0", "begin"] {
        let _ = sqlx::raw_sql(text(left)).execute(&mut *pool.acquire().await.unwrap()).await;
        let mut cx = messages.begin();
        cx.send(job()).unwrap();
        cx.transaction().await.unwrap();
        cx.commit().await.unwrap();
    }
    assert_eq!(kept(&db).await, (0, 3));
}

/// A lost conflict is one, however sqlx's error is wrapped.
#[tokio::test]
async fn conflicts_are_recognized() {
    let Some(db) = SqlxDb::with_ledger().await else { return };
    let messages = db.messages().await;
    for (state, advice) in
        [("40001", RetryAdvice::Conflict), ("40P01", RetryAdvice::Conflict), ("23505", RetryAdvice::ByPolicy)]
    {
        let raise = format!("do $$ begin raise exception 'no' using errcode = '{state}'; end $$");
        let raised = async || {
            let mut cx = messages.begin();
            sqlx::raw_sql(text(&raise)).execute(&mut **cx.transaction().await.unwrap()).await.unwrap_err()
        };
        assert_eq!(JobError::from(raised().await).advice(), advice, "{state}");
        assert_eq!(JobError::from(anyhow::Error::from(raised().await).context("can't book")).advice(), advice);
        assert_eq!(JobError::from(anyhow::Error::from(raised().await)).advice(), advice);
        assert_eq!(JobError::from(Error::refused(raised().await)).advice(), advice);
    }
}

/// Behind a transaction pooler nothing of a session is relied on.
#[tokio::test]
async fn through_a_transaction_pooler() {
    let Some(db) = Pg::<true>::create().await else { return };
    let Some(url) = pgbouncer_url() else { return };
    let config = jobwright::DatabaseConfig::url(url).schema(db.schema()).pgbouncer(true);
    let pool = pool(&config).await;
    let messages = services(pool.clone(), &config).await.unwrap();
    for round in 0..30 {
        let mut cx = messages.begin();
        cx.transaction().await.unwrap();
        cx.send(job().priority(round)).unwrap();
        cx.send(job().delay(LATER)).unwrap();
        cx.commit().await.unwrap();
        let mut transaction = pool.begin().await.unwrap();
        let mut enlisted = messages.enlist(&mut transaction);
        enlisted.send(job()).unwrap();
        let flushed = enlisted.flush().await.unwrap();
        transaction.commit().await.unwrap();
        flushed.committed();
    }
    assert_eq!(db.jobs().all().await.len(), 90);
}
