use std::time::{Duration, Instant};

use super::{TempFile, claim, job, message, node};
use crate::error::ErrorKind;
use crate::store::{Claims, Enqueue, JobFilter, Nodes, Operator, Page, Store, UnitOfWork};

/// Runs for hours unless it is interrupted.
const ENDLESS: &str =
    "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n where i > 1000000000000";

#[tokio::test]
async fn a_cancelled_call_stops_and_leaves_the_writer_usable() {
    let temp = TempFile::new();
    let store = temp.store().await;
    let mut tx = store.begin().await.unwrap();
    tx.execute("create table mine (x)", ()).await.unwrap();
    let call = tx.query_row(ENDLESS, (), |row| row.get::<_, i64>(0));
    assert!(tokio::time::timeout(Duration::from_millis(50), call).await.is_err());

    let error = tx.execute("insert into mine values (1)", ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Aborted);
    assert!(error.to_string().contains("cancelled"), "{error}");
    assert_eq!(tx.commit().await.unwrap_err().kind(), ErrorKind::Aborted);

    // The deadline of this call is shorter than the statement, so the statement was interrupted.
    store.insert(&[message(job())], None).await.unwrap();
    let mine: i64 =
        temp.stranger().query_row("select count(*) from sqlite_schema where name = 'mine'", (), |r| r.get(0)).unwrap();
    assert_eq!(mine, 0);
}

#[tokio::test]
async fn a_cancelled_engine_call_leaves_the_writer_usable() {
    let temp = TempFile::new();
    let store = temp.patient().await;
    let messages: Vec<_> = (0..20_000).map(|_| message(job())).collect();
    for millis in [0, 1, 5, 20] {
        let insert = store.insert(&messages, None);
        let _ = tokio::time::timeout(Duration::from_millis(millis), insert).await;
    }
    let node = node(&store).await;
    store.insert(&[message(job())], None).await.unwrap();
    // Each insert was written as a whole or not at all.
    let waiting = store.status().await.unwrap().queues[0].waiting;
    assert_eq!(waiting.get() % 20_000, 1);
    assert_eq!(store.claim(&claim(node, 1)).await.unwrap().jobs.len(), 1);
}

#[tokio::test]
async fn an_open_transaction_makes_others_busy_and_no_longer() {
    let temp = TempFile::new();
    let store = temp.store().await;
    let other = temp.store().await;
    let owner = node(&store).await;
    store.insert(&[message(job())], None).await.unwrap();
    let tx = store.begin().await.unwrap();
    // In this process writers queue for the connection, elsewhere for the file.
    for (store, text) in [(&store, "context"), (&other, "write lock")] {
        let start = Instant::now();
        let error = store.insert(&[message(job())], None).await.unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        assert_eq!(error.kind(), ErrorKind::Busy);
        assert!(error.is_retryable() && error.to_string().contains(text), "{error}");
        assert_eq!(store.claim(&claim(owner, 1)).await.unwrap_err().kind(), ErrorKind::Busy);
        assert_eq!(store.begin().await.unwrap_err().kind(), ErrorKind::Busy);
        // Readers and heartbeats are not affected.
        assert!(store.heartbeat(owner).await.unwrap());
        assert!(
            store.node_heartbeats().await.unwrap().iter().all(|heartbeat| heartbeat.node == owner && !heartbeat.ended)
        );
        assert_eq!(store.list(&JobFilter::default(), &Page::default()).await.unwrap().len(), 1);
    }
    drop(tx);
    assert_eq!(store.claim(&claim(owner, 1)).await.unwrap().jobs.len(), 1);
}

#[tokio::test]
async fn a_transaction_ended_by_sql_is_never_reported_as_committed() {
    let temp = TempFile::new();
    let store = temp.store().await;
    let setup = temp.stranger();
    setup.execute_batch("create table mine (x unique)").unwrap();
    for (sql, kept) in [("rollback", 0), ("commit", 1), ("rollback; begin", 0), ("commit; begin immediate", 1)] {
        setup.execute_batch("delete from mine").unwrap();
        let mut tx = store.begin().await.unwrap();
        tx.execute("insert into mine values (?1)", [1]).await.unwrap();
        tx.call(move |connection| connection.execute_batch(sql)).await.unwrap();
        // The insert is rejected at once, or goes to the transaction that the statement began.
        let inserted = tx.insert(&[message(job())], None).await;
        assert_eq!(inserted.is_err(), !sql.contains("begin"), "{sql}");
        let error = tx.commit().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Aborted, "{sql}");
        let rows: i64 = setup.query_row("select count(*) from mine", (), |row| row.get(0)).unwrap();
        assert_eq!(rows, kept, "{sql}");
        assert!(store.status().await.unwrap().queues.is_empty(), "{sql}");
    }
}

#[tokio::test]
async fn a_refused_statement_leaves_the_transaction_as_it_was() {
    let temp = TempFile::new();
    let store = temp.store().await;
    let mut tx = store.begin().await.unwrap();
    tx.execute("create table mine (x unique)", ()).await.unwrap();
    tx.execute("insert into mine values (?1)", [1]).await.unwrap();
    let error = tx.execute("insert into mine values (?1)", [1]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Database);
    let source = std::error::Error::source(&error).unwrap().downcast_ref::<rusqlite::Error>().unwrap();
    assert_eq!(source.sqlite_error_code(), Some(rusqlite::ErrorCode::ConstraintViolation));
    assert_eq!(tx.insert(&[message(job())], None).await.unwrap().rows, 1);
    tx.commit().await.unwrap();
    assert_eq!(store.status().await.unwrap().queues[0].waiting, 1);
}

/// `or rollback` is one way in which SQLite itself ends a transaction.
#[tokio::test]
async fn a_transaction_that_sqlite_rolled_back_says_so() {
    let temp = TempFile::new();
    let store = temp.store().await;
    temp.stranger().execute_batch("create table mine (x unique)").unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.execute("insert into mine values (1)", ()).await.unwrap();
    let error = tx.execute("insert or rollback into mine values (1)", ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Database);
    assert_eq!(tx.execute("insert into mine values (2)", ()).await.unwrap_err().kind(), ErrorKind::Aborted);
    assert_eq!(tx.commit().await.unwrap_err().kind(), ErrorKind::Aborted);
}

#[tokio::test]
async fn a_panic_goes_on_in_the_caller_and_frees_the_writer() {
    let temp = TempFile::new();
    let store = temp.store().await;
    let mut tx = store.begin().await.unwrap();
    let task = tokio::spawn(async move { tx.call(|_| -> rusqlite::Result<()> { panic!("on purpose") }).await });
    assert!(task.await.unwrap_err().is_panic());
    store.insert(&[message(job())], None).await.unwrap();
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_stopped() {
    let temp = TempFile::new();
    let store = temp.store().await;
    let start = Instant::now();
    let error = store
        .0
        .write("run for ever", |connection, _| Ok(connection.query_row(ENDLESS, (), |row| row.get::<_, i64>(0))?))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains("nothing was changed"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(2));
    store.insert(&[message(job())], None).await.unwrap();
}

#[tokio::test]
async fn writers_of_two_handles_share_the_file() {
    let temp = TempFile::new();
    let store = temp.patient().await;
    let other = store.detached().await.unwrap();
    let busy = {
        let store = store.clone();
        tokio::spawn(async move {
            for _ in 0..500 {
                store.insert(&[message(job())], None).await.unwrap();
            }
        })
    };
    let owner = node(&store).await;
    let mut longest = Duration::ZERO;
    while !busy.is_finished() {
        let start = Instant::now();
        assert!(other.heartbeat(owner).await.unwrap());
        longest = longest.max(start.elapsed());
    }
    busy.await.unwrap();
    // A lease is a second or longer.
    assert!(longest < Duration::from_secs(1), "{longest:?}");
}
