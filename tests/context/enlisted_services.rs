//! Message services of a program in a transaction that the caller owns.

#![expect(
    clippy::disallowed_methods,
    reason = "the caller's commit is what these tests are about; they look at what is there"
)]

use jobwright::ErrorKind;

use crate::context::services::{Audit, Recording, Refuses, Seen};
use crate::support::TestDb;
use crate::support::environment::World;
use crate::support::jobs::job;
use crate::support::postgres::Pg;

#[tokio::test]
async fn writes_of_services_commit_with_the_callers_transaction() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let seen = Seen::default();
    let messages = Recording::around(Audit::<Pg<false>>::around(db.messages().await, Refuses::Never), "it", &seen);
    let mut client = db.client().await;
    for (commit, tells) in [(false, false), (true, false), (true, true)] {
        let transaction = client.transaction().await.unwrap();
        let mut enlisted = messages.enlist(&transaction);
        let id = enlisted.send(job()).unwrap();
        let flushed = enlisted.flush().await.unwrap();
        assert_eq!(seen.take().len(), 2, "the send and the flush, and no commit");
        if commit {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
        if tells {
            flushed.committed();
        }
        assert_eq!(seen.take().len(), usize::from(tells));
        assert_eq!(db.jobs().state(id).await.is_some(), commit);
        assert_eq!(db.ledger().await.contains_key(&id.to_string()), commit);
    }
}

/// After an error of a service the transaction goes on, without any of the service's writes.
#[tokio::test]
async fn a_refused_flush_leaves_the_callers_transaction_as_it_was() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let mut client = db.client().await;
    for (n, refuses) in [Refuses::BeforeTheInner, Refuses::AfterTheInner].into_iter().enumerate() {
        let messages = Audit::<Pg<false>>::around(db.messages().await, refuses);
        let transaction = client.transaction().await.unwrap();
        transaction.execute("insert into ledger (line) values ($1)", &[&format!("kept {n}")]).await.unwrap();
        let mut enlisted = messages.enlist(&transaction);
        enlisted.send(job()).unwrap();
        assert_eq!(enlisted.flush().await.err().unwrap().kind(), ErrorKind::Refused);
        transaction.commit().await.unwrap();
    }
    assert_eq!(db.ledger().await.into_keys().collect::<Vec<_>>(), ["kept 0", "kept 1"]);
    assert!(db.jobs().all().await.is_empty());
}

/// An error that a service makes of a temporary driver error is retryable.
#[tokio::test]
async fn a_lost_conflict_can_be_tried_again() {
    let Some(db) = Pg::<false>::create().await else { return };
    let client = db.client().await;
    for (code, kind) in [("40001", ErrorKind::Aborted), ("23505", ErrorKind::Refused), ("42P01", ErrorKind::Refused)] {
        let sql = format!("do $$ begin raise exception 'on purpose' using errcode = '{code}'; end $$");
        let error = client.batch_execute(&sql).await.unwrap_err();
        assert_eq!(jobwright::Error::refused(error).kind(), kind, "{code}");
    }
}

/// The service's writes are undone by a separate savepoint; the caller's savepoints stay valid.
#[tokio::test]
async fn the_savepoints_of_the_caller_are_left_alone() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let mut client = db.client().await;
    for refuses in [Refuses::Never, Refuses::AfterTheInner] {
        let messages = Audit::<Pg<false>>::around(db.messages().await, refuses);
        let mut transaction = client.transaction().await.unwrap();
        let inner = transaction.savepoint("jobwright_flush").await.unwrap();
        inner.execute("insert into ledger (line) values ('undone')", &[]).await.unwrap();
        let mut enlisted = messages.enlist(&inner);
        enlisted.send(job()).unwrap();
        assert_eq!(enlisted.flush().await.is_ok(), refuses == Refuses::Never);
        inner.rollback().await.unwrap();
        transaction.commit().await.unwrap();
        assert!(db.jobs().all().await.is_empty() && db.ledger().await.is_empty());
    }
}

#[cfg(feature = "sqlite")]
mod embedded {
    use jobwright::{ErrorKind, FlushInto, MessageService, Result, Sqlite, Written, async_trait};

    use super::{Audit, Recording, Refuses, Seen};
    use crate::support::TestDb;
    use crate::support::environment::World;
    use crate::support::jobs::job;
    use crate::support::sqlite::SqliteDb;

    #[tokio::test]
    async fn writes_of_services_commit_with_the_callers_transaction() {
        let db = SqliteDb::with_ledger().await.unwrap();
        let seen = Seen::default();
        let messages = Recording::around(Audit::<SqliteDb>::around(db.messages().await, Refuses::Never), "it", &seen);
        let mut connection = db.connection();
        for (commit, tells) in [(false, false), (true, false), (true, true)] {
            let transaction = connection.transaction().unwrap();
            let mut enlisted = messages.enlist(&transaction);
            let id = enlisted.send(job()).unwrap();
            let flushed = enlisted.flush().unwrap();
            assert_eq!(seen.take().len(), 2, "the send and the flush, and no commit");
            if commit {
                transaction.commit().unwrap();
            } else {
                transaction.rollback().unwrap();
            }
            if tells {
                flushed.committed();
            }
            assert_eq!(seen.take().len(), usize::from(tells));
            assert_eq!(db.jobs().state(id).await.is_some(), commit);
            assert_eq!(db.ledger().await.contains_key(&id.to_string()), commit);
        }
    }

    /// In a transaction, and outside of one: there the flush is a transaction.
    #[tokio::test]
    async fn a_refused_flush_leaves_the_callers_connection_as_it_was() {
        let db = SqliteDb::with_ledger().await.unwrap();
        let connection = db.connection();
        for refuses in [Refuses::BeforeTheInner, Refuses::AfterTheInner] {
            let messages = Audit::<SqliteDb>::around(db.messages().await, refuses);
            let refused = || {
                let mut enlisted = messages.enlist(&connection);
                enlisted.send(job()).unwrap();
                assert_eq!(enlisted.flush().err().unwrap().kind(), ErrorKind::Refused);
            };
            connection.execute_batch("begin; insert into ledger (line) values ('kept')").unwrap();
            refused();
            assert!(!connection.is_autocommit());
            connection.execute_batch("commit").unwrap();
            refused();
            assert!(connection.is_autocommit());
        }
        assert_eq!(db.ledger().await.into_iter().collect::<Vec<_>>(), [("kept".to_owned(), 2)]);
        assert!(db.jobs().all().await.is_empty());
    }

    /// Waits for something that only another task can do.
    struct Waits(Box<dyn MessageService<Sqlite>>);

    #[async_trait]
    impl MessageService<Sqlite> for Waits {
        wraps!(0: Sqlite);

        async fn flush(&mut self, into: &mut FlushInto<'_, Sqlite>) -> Result<Written> {
            let written = self.0.flush(into).await?;
            std::future::pending::<()>().await;
            Ok(written)
        }
    }

    /// It would hold the write lock while it waits, and on this thread no other task can run.
    #[tokio::test]
    async fn one_that_waits_is_refused() {
        let db = SqliteDb::with_ledger().await.unwrap();
        let messages = db.messages().await.wrap(Waits);
        let connection = db.connection();
        connection.execute_batch("begin").unwrap();
        let mut enlisted = messages.enlist(&connection);
        enlisted.send(job()).unwrap();
        let error = enlisted.flush().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.to_string().contains("nothing may wait there"), "{error}");
        connection.execute_batch("commit").unwrap();
        assert!(db.jobs().all().await.is_empty());
    }

    /// A thread without a runtime, as a caller of the embedded driver may have.
    #[tokio::test]
    async fn no_runtime_is_needed() {
        let db = SqliteDb::with_ledger().await.unwrap();
        let messages = Audit::<SqliteDb>::around(db.messages().await, Refuses::Never);
        let connection = db.connection();
        let thread = std::thread::spawn(move || {
            let mut enlisted = messages.enlist(&connection);
            let id = enlisted.send(job()).unwrap();
            drop(enlisted.flush().unwrap());
            id
        });
        let id = tokio::task::spawn_blocking(|| thread.join().unwrap()).await.unwrap();
        assert!(db.jobs().state(id).await.is_some());
        assert!(db.ledger().await.contains_key(&id.to_string()));
    }
}
