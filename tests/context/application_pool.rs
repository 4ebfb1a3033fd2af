//! Contexts and handlers on a pool of the application's, by deadpool.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use jobwright::{CommandExecutor, DatabaseConfig, ErrorKind, MessageServices, Outcome};
use tokio_postgres::NoTls;

use crate::support::environment::{PATIENCE, World, quick};
use crate::support::jobs::job;
use crate::support::postgres::Pg;
use crate::support::proxy::Proxy;
use crate::support::{TestDb, eventually};

fn pool(config: &DatabaseConfig, size: usize) -> Pool {
    let options: tokio_postgres::Config = config.url.expose().parse().unwrap();
    pool_of(options, size)
}

fn pool_of(options: tokio_postgres::Config, size: usize) -> Pool {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    Pool::builder(Manager::from_config(options, NoTls, recycling)).max_size(size).build().unwrap()
}

async fn kept(db: &Pg<false>) -> (usize, usize) {
    (db.ledger().await.len(), db.jobs().all().await.len())
}

const WRITE: &str = "insert into ledger (line) values ($1)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contexts_and_handlers_have_its_connections() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let pool = pool(&db.config(), 2);
    let backend = async || -> i32 {
        let taken = pool.get().await.unwrap();
        taken.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0)
    };
    let only = backend().await;
    let messages = MessageServices::postgres_with(pool.clone(), &db.config()).await.unwrap();
    for commit in [false, true] {
        let mut cx = messages.begin();
        let transaction = cx.transaction().await.unwrap();
        assert_eq!(transaction.query_one("select pg_backend_pid()", &[]).await.unwrap().get::<_, i32>(0), only);
        transaction.execute(WRITE, &[&"context"]).await.unwrap();
        cx.send(job()).unwrap();
        if commit {
            cx.commit().await.unwrap();
        } else {
            cx.rollback().await.unwrap();
        }
        assert_eq!(kept(&db).await, if commit { (1, 1) } else { (0, 0) });
        assert_eq!((pool.status().size, pool.status().available), (1, 1), "it is back");
    }
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle_with("kind", move |cx| {
            Box::pin(async move {
                let transaction = cx.transaction().await?;
                let backend: i32 = transaction.query_one("select pg_backend_pid()", &[]).await?.get(0);
                transaction.execute(WRITE, &[&format!("handler of {}", backend == only)]).await?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    db.drained().await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!(db.ledger().await.into_keys().collect::<Vec<_>>(), ["context", "handler of true"]);
    // An application that uses the pool itself finds no transaction open in it.
    let taken = pool.get().await.unwrap();
    assert!(taken.batch_execute("savepoint a").await.is_err());
}

#[tokio::test]
async fn what_did_not_commit_is_an_error_and_keeps_no_connection() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let pool = pool(&db.config(), 1);
    let messages = MessageServices::postgres_with(pool.clone(), &db.config()).await.unwrap();
    for (ended_by, kind) in [("select 1/0", ErrorKind::Aborted), ("rollback", ErrorKind::Aborted)] {
        let mut cx = messages.begin();
        let transaction = cx.transaction().await.unwrap();
        transaction.execute(WRITE, &[&"undone"]).await.unwrap();
        let _ = transaction.batch_execute(ended_by).await;
        assert_eq!(cx.commit().await.unwrap_err().kind(), kind, "{ended_by}");
        assert_eq!(kept(&db).await, (0, 0), "{ended_by}");
    }
    let mut cx = messages.begin();
    let transaction = cx.transaction().await.unwrap();
    transaction.batch_execute("select pg_terminate_backend(pg_backend_pid())").await.unwrap_err();
    // Before that, the commit would be sent, and its answer lost.
    eventually(PATIENCE, async || transaction.is_closed()).await;
    let error = cx.commit().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Aborted && error.is_retryable(), "{error}");
    messages.begin().transaction().await.unwrap();
    eventually(PATIENCE, async || pool.status().available == 1).await;
}

/// The answer says that the server takes no writes, so the connection leads to a server that is no primary any more.
#[tokio::test]
async fn a_connection_to_a_server_without_writes_is_closed_and_no_other() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let pool = pool(&db.config(), 2);
    let messages = MessageServices::postgres_with(pool.clone(), &db.config()).await.unwrap();
    let both = [pool.get().await.unwrap(), pool.get().await.unwrap()];
    drop(both);
    let mut cx = messages.begin();
    let transaction = cx.transaction().await.unwrap();
    let demoted: i32 = transaction.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    transaction.batch_execute("set transaction read only").await.unwrap();
    cx.send(job()).unwrap();
    assert_eq!(cx.commit().await.unwrap_err().kind(), ErrorKind::ReadOnly);
    eventually(PATIENCE, async || (pool.status().size, pool.status().available) == (1, 1)).await;
    let other: i32 = pool.get().await.unwrap().query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    assert_ne!(other, demoted);
}

/// Whether the commit took effect is not known, so a failure is recorded: it is refused, because the job is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_whose_commit_was_not_answered_runs_once() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let proxy = Proxy::start(db.address()).await;
    let config = db.config().call_timeout(Duration::from_millis(1500));
    let pool = pool(&db.config_by(proxy.address), 4);
    let messages = MessageServices::postgres_with(pool, &config).await.unwrap();
    let starts = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = starts.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle_with("kind", move |cx| {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Box::pin(async move {
                cx.transaction().await?.execute(WRITE, &[&"handler"]).await?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    proxy.swallow_answer_to("commit");
    messages.send(job()).await.unwrap();
    eventually(PATIENCE, async || executor.stats().refused == 1).await;
    db.drained().await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!(proxy.swallowed(), 1);
    assert_eq!(starts.load(std::sync::atomic::Ordering::Relaxed), 1);
    assert_eq!(kept(&db).await, (1, 0));
}

/// The context would commit the half of a job that other code has left.
#[tokio::test]
async fn a_transaction_that_was_left_open_is_rolled_back() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let pool = pool(&db.config(), 1);
    let messages = MessageServices::postgres_with(pool.clone(), &db.config()).await.unwrap();
    for left in ["begin; insert into ledger (line) values ('half')", "begin; select 1/0", "begin"] {
        let _ = pool.get().await.unwrap().batch_execute(left).await;
        let mut cx = messages.begin();
        cx.send(job()).unwrap();
        cx.transaction().await.unwrap().execute(WRITE, &[&left]).await.unwrap();
        cx.commit().await.unwrap();
    }
    assert_eq!(kept(&db).await, (3, 3));
    assert!(!db.ledger().await.contains_key("half"));
}

/// The statement is cancelled, so its locks do not wait for its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_was_given_up_keeps_no_connection_of_the_pool() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let pool = pool(&db.config(), 1);
    let messages = MessageServices::postgres_with(pool, &db.config()).await.unwrap();
    let mut cx = messages.begin();
    let sleeps = cx.transaction().await.unwrap().batch_execute("select pg_sleep(600) /* given up */");
    tokio::time::timeout(Duration::from_millis(300), sleeps).await.expect_err("it did not wait");
    drop(cx);
    eventually(PATIENCE, async || messages.begin().transaction().await.is_ok()).await;
    let asleep = "select from pg_stat_activity where query like '%600) /* given up%' and pid <> pg_backend_pid() and state = 'active'";
    let aside = db.client().await;
    eventually(PATIENCE, async || aside.query(asleep, &[]).await.unwrap().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_whose_answer_got_lost_are_found_out() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let proxy = Proxy::start(db.address()).await;
    let config = db.config_by(proxy.address).call_timeout(Duration::from_millis(1500));
    let messages = MessageServices::postgres_with(pool(&config, 4), &config).await.unwrap();
    for (arrives, sends) in [(true, true), (false, true), (true, false)] {
        let mut cx = messages.begin();
        if sends {
            cx.send(job()).unwrap();
        }
        cx.transaction().await.unwrap().execute(WRITE, &[&format!("{arrives} {sends}")]).await.unwrap();
        if arrives {
            proxy.swallow_answer_to("commit");
        } else {
            proxy.swallow("commit");
        }
        let committed = cx.commit().await;
        match (arrives, sends) {
            (true, true) => committed.unwrap(),
            (false, _) => assert_eq!(committed.unwrap_err().kind(), ErrorKind::Aborted),
            // Nothing identifies the transaction.
            (true, false) => assert_eq!(committed.unwrap_err().kind(), ErrorKind::CommitUnknown),
        }
    }
    assert_eq!(kept(&db).await, (2, 1));
}

#[tokio::test]
async fn a_pool_that_gives_no_connection_says_why() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let config = db.config().call_timeout(Duration::from_millis(1500));
    let pool = pool(&config, 1);
    let messages = MessageServices::postgres_with(pool.clone(), &config).await.unwrap();
    let held = pool.get().await.unwrap();
    let error = messages.begin().transaction().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.to_string().contains("none of the 1 connections of the application's pool"), "{error}");
    drop(held);
    messages.begin().transaction().await.unwrap();
    pool.close();
    let error = messages.begin().transaction().await.unwrap_err();
    assert!(error.to_string().contains("the application has closed its pool"), "{error}");
    // The engine has connections of its own.
    messages.send(job()).await.unwrap();
}

#[tokio::test]
async fn a_pool_to_another_database_is_refused() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let config = db.config();
    let mut other: tokio_postgres::Config = config.url.expose().parse().unwrap();
    other.dbname("template1");
    let error = MessageServices::postgres_with(pool_of(other, 1), &config).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(
        error.to_string().contains("template1") && error.to_string().contains("same database of the same server"),
        "{error}"
    );
}
