//! Messages in a transaction that the caller owns.

#![expect(
    clippy::disallowed_methods,
    reason = "the caller's commit is what these tests are about; they look at what is there"
)]

use jobwright::ErrorKind;

use crate::support::TestDb;
use crate::support::environment::World;
use crate::support::jobs::{LATER, job};
use crate::support::logs::Logs;
use crate::support::postgres::Pg;

#[tokio::test]
async fn in_a_transaction_of_the_driver() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let mut client = db.client().await;
    let mut ear = db.ear().await;

    let transaction = client.transaction().await.unwrap();
    transaction.execute("insert into ledger (line) values ('kept')", &[]).await.unwrap();
    let mut enlisted = messages.enlist(&transaction);
    let id = enlisted.send(job().queue("enlisted")).unwrap();
    enlisted.send(job().delay(LATER)).unwrap();
    assert!(enlisted.send(jobwright::NewJob::json("", &1)).unwrap_err().is_invalid());
    assert_eq!(enlisted.pending().len(), 2);
    let flushed = enlisted.flush().await.unwrap();
    assert!(db.jobs().all().await.is_empty(), "visible before the commit");
    transaction.commit().await.unwrap();
    assert_eq!(db.jobs().all().await.len(), 2);
    assert_eq!(db.jobs().all().await[0].id, id);
    // Only now.
    messages.send(job().queue("before")).await.unwrap();
    assert_eq!(ear.next().await.0, "qbefore");
    flushed.committed();
    let heard = [ear.next().await.0, ear.next().await.0];
    assert!(heard.contains(&"qenlisted".to_owned()) && heard.contains(&"t".to_owned()), "{heard:?}");
}

#[tokio::test]
async fn rolled_back_or_dropped_nothing_is_left() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let mut client = db.client().await;

    let transaction = client.transaction().await.unwrap();
    let mut enlisted = messages.enlist(&transaction);
    enlisted.send(job()).unwrap();
    drop(enlisted.flush().await.unwrap());
    transaction.rollback().await.unwrap();

    let transaction = client.transaction().await.unwrap();
    let mut enlisted = messages.enlist(&transaction);
    enlisted.send(job()).unwrap();
    enlisted.discard();
    transaction.commit().await.unwrap();
    assert!(db.jobs().all().await.is_empty());
}

/// A caller that forgets to flush gets a warning, also where the compiler can't give one.
#[tokio::test]
async fn jobs_dropped_before_the_flush_are_logged() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let logs = Logs::capture();
    let messages = db.messages().await;
    let mut client = db.client().await;
    let transaction = client.transaction().await.unwrap();
    let mut enlisted = messages.enlist(&transaction);
    let (id, second) = (enlisted.send(job()).unwrap(), enlisted.send(job()).unwrap());
    drop(enlisted);
    // On purpose, empty, or refused by the server: no warning.
    drop(messages.enlist(&transaction));
    let mut enlisted = messages.enlist(&transaction);
    let on_purpose = enlisted.send(job()).unwrap();
    enlisted.discard();
    transaction.execute("select 1/0", &[]).await.unwrap_err();
    let mut enlisted = messages.enlist(&transaction);
    let refused = enlisted.send(job()).unwrap();
    assert!(enlisted.flush().await.is_err());
    transaction.rollback().await.unwrap();
    let said = |id: jobwright::JobId| logs.about(&id.to_string(), "WARN");
    assert_eq!(said(id).len(), 1);
    assert!(said(id)[0].contains("jobs=2") && said(id)[0].contains("before `flush`"), "{:?}", said(id));
    assert_eq!((said(second), said(on_purpose), said(refused)), (vec![], vec![], vec![]));
}

#[tokio::test]
async fn an_aborted_transaction_refuses_the_flush() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let mut client = db.client().await;
    let transaction = client.transaction().await.unwrap();
    transaction.execute("select 1/0", &[]).await.unwrap_err();
    let mut enlisted = messages.enlist(&transaction);
    enlisted.send(job()).unwrap();
    let error = enlisted.flush().await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
    drop(transaction);
    assert!(db.jobs().all().await.is_empty());
}

/// A pool's transaction dereferences to the driver's.
#[tokio::test]
async fn in_a_transaction_of_a_pool() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let config: tokio_postgres::Config = db.config().url.expose().parse().unwrap();
    let manager = deadpool_postgres::Manager::new(config, tokio_postgres::NoTls);
    let pool = deadpool_postgres::Pool::builder(manager).max_size(1).build().unwrap();
    let mut client = pool.get().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.execute("insert into ledger (line) values ('kept')", &[]).await.unwrap();
    let mut enlisted = messages.enlist(&transaction);
    let id = enlisted.send(job()).unwrap();
    let flushed = enlisted.flush().await.unwrap();
    transaction.commit().await.unwrap();
    flushed.committed();
    assert_eq!(db.jobs().all().await[0].id, id);
    assert_eq!(db.ledger().await.len(), 1);
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn in_a_transaction_of_the_embedded_driver() {
    use crate::support::sqlite::SqliteDb;

    let db = SqliteDb::with_ledger().await.unwrap();
    let messages = db.messages().await;
    let mut connection = db.connection();
    for commit in [false, true] {
        let transaction = connection.transaction().unwrap();
        transaction.execute("insert into ledger (line) values ('kept')", []).unwrap();
        let mut enlisted = messages.enlist(&transaction);
        let id = enlisted.send(job()).unwrap();
        let later = enlisted.send(job().delay(LATER)).unwrap();
        let flushed = enlisted.flush().unwrap();
        if commit {
            transaction.commit().unwrap();
            flushed.committed();
            assert_eq!(db.jobs().all().await.iter().map(|job| job.id).collect::<Vec<_>>(), [id, later]);
            assert_eq!(db.ledger().await.len(), 1);
        } else {
            transaction.rollback().unwrap();
            drop(flushed);
            assert!(db.jobs().all().await.is_empty() && db.ledger().await.is_empty());
        }
    }
}

#[tokio::test]
async fn send_hooks_see_enlisted_jobs() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db
        .messages()
        .await
        .on_send(|job, _| if job.kind() == "bad" { Err("no".into()) } else { Ok(job.header("hooked", "yes")) });
    let mut client = db.client().await;
    let transaction = client.transaction().await.unwrap();
    let mut enlisted = messages.enlist(&transaction);
    assert!(enlisted.send(jobwright::NewJob::json("bad", &())).unwrap_err().is_invalid());
    enlisted.send(job()).unwrap();
    assert_eq!(enlisted.pending()[0].headers["hooked"], "yes");
}
