//! The transaction that a context gives to its user.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::{Connection, Params, Row};
use tokio::time::Instant;

use super::database::Sqlite;
use super::error::{Failure, explain, refused};
use super::history::{Memory, keep_result};
use super::insert::insert_batched;
use super::lent::Desk;
use super::serial_connection::ConnectionGuard;
use super::settle::complete_one;
use super::shared::Shared;
use super::writer::{begin, now};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Fence, JobMessage, NodeId};
use crate::store::{Inserted, JobStore, JobWriter, NewResult, Preclaim, Store, UnitOfWork};

const BY_STATEMENT: &str =
    "a statement inside it ended it (COMMIT or ROLLBACK), or SQLite rolled it back after an error";
const BY_CANCEL: &str = "a call on it was cancelled before it had finished";

impl Store for Sqlite {
    type Transaction = SqliteTransaction;

    async fn begin(&self) -> Result<SqliteTransaction> {
        SqliteTransaction::begin(&self.0).await
    }

    fn engine(&self) -> Arc<dyn JobStore> {
        Arc::new(self.clone())
    }
}

impl Sqlite {
    /// Lends a caller's transaction to message services. [`Desk::serve`] does the work that they ask for.
    pub(crate) fn lend(&self) -> (SqliteTransaction, Desk) {
        SqliteTransaction::lent(&self.0)
    }
}

/// An open transaction of the embedded database. It holds the write lock, so every other writer waits: keep it short.
///
/// What it sets on the connection ends with it: before the next transaction, temporary tables are dropped, other files detached, and settings
/// (`pragma`) are as before. Functions and hooks that it adds stay.
///
/// Dropping it rolls back, and so does dropping the future of one of its calls before it has finished. It must not be ended by SQL:
/// [`commit`](UnitOfWork::commit) would then return an error.
///
/// A transaction that is lent to a [message service](crate::MessageService) belongs to the caller: dropping it does nothing, and calls on
/// it run on the caller's thread.
#[derive(Debug)]
pub struct SqliteTransaction {
    store: Arc<Shared>,
    at: At,
    ended: &'static str,
}

/// Where the transaction's connection is.
#[derive(Debug)]
enum At {
    /// Here, with the write lock.
    Held(ConnectionGuard),
    /// With the caller, who owns the transaction.
    Lent(Desk),
    /// The transaction has ended.
    Over,
}

impl SqliteTransaction {
    pub(super) async fn begin(store: &Arc<Shared>) -> Result<Self> {
        let tried = "begin a transaction";
        let deadline = Instant::now() + store.call_timeout;
        let guard = store.take_writer(tried, deadline).await?;
        let lock_by = deadline.into_std();
        let limit = deadline + Duration::from_secs(1);
        let (guard, begun) = guard
            .run(tried, Some(limit), move |connection| {
                // The savepoint lets commit() verify that it ends the transaction begun here and no other.
                begin(connection, lock_by).and_then(|()| connection.execute_batch("savepoint jobwright_context"))
            })
            .await?;
        begun.map_err(|error| explain(error, tried, &store.label))?;
        Ok(Self { store: Arc::clone(store), at: At::Held(guard), ended: BY_CANCEL })
    }
}

impl SqliteTransaction {
    /// Wraps a caller's transaction for message services. [`Desk::serve`] does the work that they ask for.
    pub(super) fn lent(store: &Arc<Shared>) -> (Self, Desk) {
        let desk = Desk::default();
        (Self { store: Arc::clone(store), at: At::Lent(desk.clone()), ended: BY_CANCEL }, desk)
    }

    /// Runs one statement. Returns the number of rows it changed.
    ///
    /// # Errors
    /// [`ErrorKind::Database`] with rusqlite's error as its source. The transaction stays usable, unless SQLite itself rolled it back
    /// (because of a full disk, for instance): then this and every later call fails with [`ErrorKind::Aborted`].
    pub async fn execute(&mut self, sql: impl Into<String>, params: impl Params + Send + 'static) -> Result<usize> {
        let sql = sql.into();
        self.call(move |connection| connection.prepare_cached(&sql)?.execute(params)).await
    }

    /// Runs a query and reads its first row.
    ///
    /// # Errors
    /// As [`execute`](Self::execute); no row is rusqlite's `QueryReturnedNoRows`.
    pub async fn query_row<T: Send + 'static>(
        &mut self,
        sql: impl Into<String>,
        params: impl Params + Send + 'static,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let sql = sql.into();
        self.call(move |connection| connection.prepare_cached(&sql)?.query_row(params, read)).await
    }

    /// Works on the connection itself, on a thread where blocking is allowed. There is no deadline. If the future is dropped, the running
    /// statement is interrupted and the transaction rolled back. A panic resumes in the caller.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub async fn call<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        if matches!(self.at, At::Held(_)) {
            self.store.lent.store(true, Ordering::Release);
        }
        let value = self.work("run a statement", None, work).await?;
        value.map_err(|error| refused(error, &self.store.label))
    }

    /// Works on the connection, and checks whether the transaction is still open afterwards.
    async fn work<T: Send + 'static>(
        &mut self,
        tried: &'static str,
        deadline: Option<Instant>,
        work: impl FnOnce(&Connection) -> T + Send + 'static,
    ) -> Result<T> {
        let work = move |connection: &Connection| {
            let value = work(connection);
            (value, !connection.is_autocommit())
        };
        // Taken out: if this future is dropped, the guard is dropped with the work and rolls back.
        let (at, (value, open)) = match std::mem::replace(&mut self.at, At::Over) {
            At::Held(guard) => {
                let (guard, done) = guard.run(tried, deadline, work).await?;
                (At::Held(guard), done)
            }
            At::Lent(desk) => {
                let done = desk.ask(work).await.ok_or_else(|| self.gone())?;
                (At::Lent(desk), done)
            }
            At::Over => return Err(self.gone()),
        };
        if open {
            self.at = at;
        } else {
            self.ended = BY_STATEMENT;
        }
        Ok(value)
    }

    fn gone(&self) -> Error {
        Error::new(
            ErrorKind::Aborted,
            format!("the transaction in {} is over: {}. Its writes were not committed", self.store.label, self.ended),
        )
    }

    /// Takes the guard to end the transaction, which a borrower must not do.
    fn take_hold(&mut self) -> Option<ConnectionGuard> {
        match std::mem::replace(&mut self.at, At::Over) {
            At::Held(guard) => Some(guard),
            At::Lent(_) | At::Over => None,
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.store.call_timeout
    }
}

impl JobWriter for &mut SqliteTransaction {
    async fn insert(&mut self, messages: &[JobMessage], owned: Option<&Preclaim>) -> Result<Inserted> {
        let (messages, owned) = (messages.to_vec(), owned.cloned());
        let tried = "insert job messages";
        let done = self
            .work(tried, Some(self.deadline()), move |connection| {
                insert_batched(connection, &messages, owned.as_ref(), now())
            })
            .await?;
        done.map_err(|failure| failure.explain(tried, &self.store.label))
    }
}

impl UnitOfWork for SqliteTransaction {
    type Ref<'t> = &'t mut SqliteTransaction;

    fn lend(&mut self) -> &mut SqliteTransaction {
        self
    }

    async fn remove(&mut self, node: NodeId, fence: Fence) -> Result<bool> {
        let tried = "remove a finished job";
        let memory = Memory { keep: self.store.history.keep, now: now() };
        let done = self
            .work(tried, Some(self.deadline()), move |connection| complete_one(connection, node, fence, memory))
            .await?;
        done.map_err(|error| explain(error, tried, &self.store.label))
    }

    async fn keep_result(&mut self, result: &NewResult) -> Result<()> {
        let tried = "keep the result of a job";
        let result = result.clone();
        let done =
            self.work(tried, Some(self.deadline()), move |connection| keep_result(connection, &result, now())).await?;
        done.map_err(|error| explain(error, tried, &self.store.label))
    }

    async fn commit(mut self) -> Result<()> {
        let tried = "commit a transaction";
        let guard = self.take_hold().ok_or_else(|| self.gone())?;
        let committed = guard.finish(tried, Some(self.deadline()), commit).await;
        match committed {
            Ok(done) => done.map_err(|failure| failure.explain(tried, &self.store.label)),
            Err(error) if error.kind() == ErrorKind::Timeout => Err(Error::new(
                ErrorKind::CommitUnknown,
                format!("{} did not answer a COMMIT in time: whether it took effect is not known", self.store.label),
            )
            .with_source(error)),
            Err(error) => Err(error),
        }
    }

    async fn rollback(mut self) -> Result<()> {
        let tried = "roll back a transaction";
        let Some(guard) = self.take_hold() else {
            return Ok(());
        };
        guard
            .finish(tried, Some(self.deadline()), |connection| connection.execute_batch("rollback"))
            .await?
            .map_err(|error| explain(error, tried, &self.store.label))
    }
}

/// Commits the transaction begun here. If anything fails, the guard then rolls back.
fn commit(connection: &Connection) -> std::result::Result<(), Failure> {
    connection.execute_batch("release jobwright_context").map_err(|error| {
        Error::new(
            ErrorKind::Aborted,
            "a statement ended the transaction (COMMIT or ROLLBACK) and began another one, which was rolled back: \
             leave its end to the context",
        )
        .with_source(error)
    })?;
    connection.execute_batch("commit")?;
    Ok(())
}
