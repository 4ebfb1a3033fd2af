//! A transaction on the caller's own connection, for the duration of a flush.
//!
//! Message services are async and may move between threads. A connection of this driver must not be shared between threads, and the caller
//! only lends it. So the services get no connection, but a desk where they leave work. The caller's thread polls the services, and whenever
//! they wait, it does the work on the desk.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use rusqlite::Connection;

use super::error::explain;
use crate::error::{Error, ErrorKind, Result};

type Work = Box<dyn FnOnce(&Connection) + Send>;

/// Holds work for the thread that has the connection.
#[derive(Clone, Default)]
pub(crate) struct Desk(Arc<Mutex<Option<Work>>>);

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Desk")
    }
}

impl Desk {
    /// Leaves work and waits for it. Returns `None` if it was not done because no thread serves the desk any more.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> T + Send + 'static,
    ) -> Option<T> {
        let answer = Arc::new(Mutex::new(None));
        let place = Arc::clone(&answer);
        *lock(&self.0) = Some(Box::new(move |connection| {
            let done = work(connection);
            *lock(&place) = Some(done);
        }));
        poll_fn(|cx| match lock(&answer).take() {
            Some(done) => Poll::Ready(Some(done)),
            // The work was dropped.
            None if Arc::strong_count(&answer) == 1 => Poll::Ready(None),
            None => {
                // The serving thread polls again anyway. The wake-up is for combinators in between, which poll only the futures that woke
                // them.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await
    }

    /// Polls a flush to its end on this thread, and does the work that it asks for on `connection`: all of it or, after an error, nothing.
    pub(crate) fn serve<T>(&self, connection: &Connection, flush: impl Future<Output = Result<T>>) -> Result<T> {
        let tried = "flush messages";
        let place = format!("sqlite:{}", connection.path().unwrap_or_default());
        let run = |sql| connection.execute_batch(sql).map_err(|error| explain(error, tried, &place));
        run("savepoint jobwright_flush")?;
        let undo = Undo(connection);
        let written = self.poll(connection, flush)?;
        // This may fail, because it is the commit if the caller began no transaction.
        run("release jobwright_flush")?;
        std::mem::forget(undo);
        Ok(written)
    }

    fn poll<T>(&self, connection: &Connection, flush: impl Future<Output = Result<T>>) -> Result<T> {
        // Runs without the task's cooperative budget, which could make the flush yield though it waits for nothing.
        let mut flush = pin!(tokio::task::unconstrained(flush));
        let mut task = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(done) = flush.as_mut().poll(&mut task) {
                return done;
            }
            let work = lock(&self.0).take();
            match work {
                Some(work) => work(connection),
                None => {
                    return Err(Error::new(
                        ErrorKind::Refused,
                        "a message service waited for something other than the transaction while it flushed into one of the embedded \
                         database that is enlisted: nothing may wait there, because the write lock is held",
                    ));
                }
            }
        }
    }
}

/// Restores the caller's transaction when dropped, also if the work panics.
struct Undo<'c>(&'c Connection);

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        // If SQLite rolled back the whole transaction, the savepoint is gone. The first error is the one that matters.
        let _ = self.0.execute_batch("rollback to jobwright_flush; release jobwright_flush");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Opens a connection with an open transaction that has written one row.
    fn open() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("create table t (x); begin; insert into t values (1)").unwrap();
        connection
    }

    fn rows(connection: &Connection) -> i64 {
        assert!(!connection.is_autocommit(), "the caller's transaction is over");
        connection.query_row("select count(*) from t", [], |row| row.get(0)).unwrap()
    }

    async fn add(desk: &Desk) {
        desk.ask(|connection| connection.execute("insert into t values (2)", []).unwrap()).await.unwrap();
    }

    #[test]
    fn what_is_asked_for_is_done_in_the_callers_transaction() {
        let (connection, desk) = (open(), Desk::default());
        let two = async {
            add(&desk).await;
            add(&desk).await;
            Ok(())
        };
        desk.serve(&connection, two).unwrap();
        assert_eq!(rows(&connection), 3);
    }

    /// A combinator between the desk and the caller may poll more than once, or poll only the futures that woke it.
    #[test]
    fn what_is_joined_with_something_else_is_done() {
        let (connection, desk) = (open(), Desk::default());
        let joined = async {
            let mut all = futures_util::stream::FuturesUnordered::new();
            all.push(async {
                add(&desk).await;
                add(&desk).await;
            });
            while futures_util::StreamExt::next(&mut all).await.is_some() {}
            Ok(())
        };
        desk.serve(&connection, joined).unwrap();
        assert_eq!(rows(&connection), 3);
    }

    /// Uses a constraint that is checked at the commit. Here the release is the commit, because the caller began no transaction.
    #[test]
    fn after_a_release_that_fails_no_transaction_is_open() {
        let connection = Connection::open_in_memory().unwrap();
        let tables = "pragma foreign_keys = on; create table a (id integer primary key);
                      create table b (a references a deferrable initially deferred)";
        connection.execute_batch(tables).unwrap();
        let desk = Desk::default();
        let dangling = async {
            desk.ask(|connection| connection.execute("insert into b values (1)", []).unwrap()).await.unwrap();
            Ok(())
        };
        desk.serve(&connection, dangling).unwrap_err();
        assert!(connection.is_autocommit(), "the caller would hold the write lock without knowing");
        assert_eq!(connection.query_row("select count(*) from b", [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    }

    #[test]
    fn after_an_error_the_transaction_is_as_it_was() {
        let (connection, desk) = (open(), Desk::default());
        let refused = async {
            add(&desk).await;
            Err::<(), _>(Error::refused("no"))
        };
        assert_eq!(desk.serve(&connection, refused).unwrap_err().kind(), ErrorKind::Refused);
        assert_eq!(rows(&connection), 1);
    }

    /// On a runtime with one thread such a flush would wait forever, and everything else would wait for its lock.
    #[tokio::test]
    async fn who_waits_for_something_else_is_refused() {
        let (connection, desk) = (open(), Desk::default());
        let waits = async {
            add(&desk).await;
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            Ok(())
        };
        let error = desk.serve(&connection, waits).unwrap_err();
        assert!(error.kind() == ErrorKind::Refused && error.to_string().contains("waited"), "{error}");
        assert_eq!(rows(&connection), 1);
    }

    /// A task that has used up its budget is made to yield at its next `.await`, which here would count as waiting.
    #[tokio::test]
    async fn the_budget_of_the_task_does_not_count() {
        let (connection, desk) = (open(), Desk::default());
        let lock = tokio::sync::Mutex::new(());
        let much = async {
            for _ in 0..1000 {
                drop(lock.lock().await);
            }
            add(&desk).await;
            Ok(())
        };
        desk.serve(&connection, much).unwrap();
        assert_eq!(rows(&connection), 2);
    }

    #[test]
    fn a_panic_goes_on_in_the_caller_and_leaves_the_transaction_as_it_was() {
        let (connection, desk) = (open(), Desk::default());
        let panics = async {
            add(&desk).await;
            desk.ask(|_| panic!("on purpose")).await.unwrap();
            Ok(())
        };
        let caught = catch_unwind(AssertUnwindSafe(|| desk.serve(&connection, panics)));
        assert!(caught.is_err());
        assert_eq!(rows(&connection), 1);
    }
}
