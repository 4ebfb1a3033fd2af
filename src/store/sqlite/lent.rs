//! A transaction on a connection of the caller's own, for the time of a flush.
//!
//! Message services are async and may go from thread to thread; a connection of this driver may not be shared between threads, and the caller
//! only borrows us one. So the services get no connection but a desk to leave work at. The caller's thread polls them, and whenever they
//! wait, it does what lies on the desk.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use rusqlite::Connection;

use super::failure::explain;
use crate::error::{Error, ErrorKind, Result};

type Work = Box<dyn FnOnce(&Connection) + Send>;

/// Where work waits for the thread that has the connection.
#[derive(Clone, Default)]
pub(crate) struct Desk(Arc<Mutex<Option<Work>>>);

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Desk")
    }
}

impl Desk {
    /// Leaves work and waits for it. `None`: it was not done, because nobody serves here any more.
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
            // Nobody has the work any more.
            None if Arc::strong_count(&answer) == 1 => Poll::Ready(None),
            None => {
                // Who serves polls again. This is for what stands between, and polls only those who woke it.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await
    }

    /// Polls a flush to its end on this thread, and does on `connection` what it asks for: all of it or, after an error, nothing.
    pub(crate) fn serve<T>(&self, connection: &Connection, flush: impl Future<Output = Result<T>>) -> Result<T> {
        let tried = "flush messages";
        let place = format!("sqlite:{}", connection.path().unwrap_or_default());
        let run = |sql| connection.execute_batch(sql).map_err(|error| explain(error, tried, &place));
        run("savepoint jobwright_flush")?;
        let undo = Undo(connection);
        let written = self.poll(connection, flush)?;
        // It may fail, where it is the commit of a caller who began no transaction.
        run("release jobwright_flush")?;
        std::mem::forget(undo);
        Ok(written)
    }

    fn poll<T>(&self, connection: &Connection, flush: impl Future<Output = Result<T>>) -> Result<T> {
        // Without the budget of the task around it, which would make it wait for nothing.
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

/// Dropped, also by a panic of the work, it leaves the caller's transaction as it was.
struct Undo<'c>(&'c Connection);

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        // If SQLite has rolled back everything by itself there is no savepoint; the first error is what counts.
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

    /// A connection with a transaction open on it, in which one row is written.
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

    /// Between the desk and who asks may stand something that polls more than once, or only those who woke it.
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

    /// A constraint that is checked at the commit, which here is that of the caller who began none.
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

    /// It would wait for ever where the runtime has one thread, and everybody else for the lock.
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

    /// A task that has done much is told to wait at its next `.await`, which here would be the wrong word.
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
