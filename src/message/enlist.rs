//! Messages in a transaction that the caller owns.

use std::fmt;
use std::sync::Arc;

use super::{CommitReceipt, FlushInto, MessageService, MessageServices, Sent, Shared, WhenFull, Written};
use crate::error::Result;
use crate::job::{IntoJob, JobId, JobMessage};
use crate::store::{Postgres, Store};

/// Collects messages for a transaction that the caller began, owns and will commit.
///
/// ```no_run
/// # async fn f(messages: jobwright::MessageServices, client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let transaction = client.transaction().await?;
/// transaction.execute("insert into orders (id) values (1)", &[]).await?;
/// let mut enlisted = messages.enlist(&transaction);
/// enlisted.send(jobwright::NewJob::json("send-invoice", &1))?;
/// let flushed = enlisted.flush().await?;
/// transaction.commit().await?;
/// flushed.committed();
/// # Ok(()) }
/// ```
///
/// If it is dropped before [`flush`](Self::flush), it discards its messages and logs a warning; [`discard`](Self::discard) does so on
/// purpose. A commit before either of them does not compile, because this value borrows the transaction:
///
/// ```compile_fail,E0505
/// # async fn f(messages: jobwright::MessageServices, client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let transaction = client.transaction().await?;
/// let mut enlisted = messages.enlist(&transaction);
/// enlisted.send(jobwright::NewJob::json("send-invoice", &1))?;
/// transaction.commit().await?; // error: `transaction` is borrowed
/// # Ok(()) }
/// ```
#[must_use = "nothing is sent before `flush`"]
pub struct Enlisted<S: Store, T> {
    shared: Arc<Shared<S>>,
    /// Created by the first message.
    service: Option<Box<dyn MessageService<S>>>,
    transaction: T,
    when_full: WhenFull,
}

impl MessageServices<Postgres> {
    /// Joins a transaction that the caller owns and will commit.
    pub fn enlist<'t, 'c>(
        &self,
        transaction: &'t tokio_postgres::Transaction<'c>,
    ) -> Enlisted<Postgres, &'t tokio_postgres::Transaction<'c>> {
        Enlisted::new(self.shared.clone(), transaction)
    }
}

#[cfg(feature = "sqlite")]
impl MessageServices<crate::Sqlite> {
    /// Joins a transaction that the caller has open on a connection of its own to the same file.
    pub fn enlist<'t>(
        &self,
        connection: &'t rusqlite::Connection,
    ) -> Enlisted<crate::Sqlite, &'t rusqlite::Connection> {
        Enlisted::new(self.shared.clone(), connection)
    }
}

impl<S: Store, T> Enlisted<S, T> {
    fn new(shared: Arc<Shared<S>>, transaction: T) -> Self {
        Self { when_full: shared.when_full, shared, service: None, transaction }
    }

    /// Checks a message and collects it.
    ///
    /// # Errors
    /// When the message is refused; messages collected before stay.
    pub fn send(&mut self, job: impl IntoJob<S>) -> Result<JobId> {
        self.service.get_or_insert_with(|| self.shared.open()).send(job.into_job(), None)
    }

    /// Sets what the flush does when a queue is full.
    pub fn when_full(&mut self, when_full: WhenFull) -> &mut Self {
        self.when_full = when_full;
        self
    }

    /// Returns the messages that a flush would write now.
    pub fn pending(&self) -> &[JobMessage] {
        self.service.as_ref().map_or(&[], |service| service.pending())
    }

    /// Discards the collected messages.
    pub fn discard(mut self) {
        self.service = None;
    }

    /// Takes the service, if it has messages to flush. From here on, a failure is returned as an error, so dropping does not warn.
    fn take_service(&mut self) -> Option<Box<dyn MessageService<S>>> {
        self.service.take().filter(|service| !service.pending().is_empty())
    }
}

impl<S: Store, T> Drop for Enlisted<S, T> {
    fn drop(&mut self) {
        // During a panic the warning would only be noise.
        if let Some(first) = self.pending().first().filter(|_| !std::thread::panicking()) {
            tracing::warn!(
                jobs = self.pending().len(), first = %first.id, kind = %first.kind,
                "jobs that were enlisted in a transaction are dropped before `flush`, and never sent (`discard` does so without a warning)"
            );
        }
    }
}

/// Set before custom message services write, so that the transaction can go on after their errors.
const SAVEPOINT: &str = "savepoint jobwright_flush";

fn end_of_savepoint(written: &Result<Written>) -> &'static str {
    match written {
        Ok(_) => "release jobwright_flush",
        Err(_) => "rollback to jobwright_flush; release jobwright_flush",
    }
}

impl Enlisted<Postgres, &tokio_postgres::Transaction<'_>> {
    /// Writes the messages into the caller's transaction, with one statement.
    ///
    /// # Errors
    /// When the statement fails; then the caller's transaction is aborted. [`Conflict`](crate::ErrorKind::Conflict) is the exception:
    /// nothing was written, and the transaction can go on. With custom message services a savepoint is set, so the transaction can go on
    /// after their errors too. If this future is dropped before it completes, roll the transaction back: it may contain part of their
    /// writes.
    pub async fn flush(mut self) -> Result<Flushed<Postgres>> {
        let Some(mut service) = self.take_service() else { return Ok(Flushed(None)) };
        let sent = self.shared.sent.clone();
        let Shared { store, jobs, .. } = &*self.shared;
        super::wait_for_capacity(&**jobs, service.pending(), self.when_full, true).await?;
        let lent = store.lend(self.transaction);
        let savepoint = self.shared.is_wrapped();
        if savepoint {
            lent.savepoint(SAVEPOINT).await?;
        }
        let written = service.flush(&mut FlushInto::enlisted(lent)).await;
        if savepoint {
            let ended = store.lend(self.transaction).savepoint(end_of_savepoint(&written)).await;
            // The first error counts.
            return written.and_then(|written| ended.map(|()| Flushed(Some((service, written, sent)))));
        }
        Ok(Flushed(Some((service, written?, sent))))
    }
}

/// What a version of sqlx adds: its types are its own.
#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
macro_rules! transactions_of_sqlx {
    ($store:ty, $sqlx:ident) => {
        impl MessageServices<$store> {
            /// Joins a transaction that the caller owns and will commit.
            pub fn enlist<'t>(
                &self,
                transaction: &'t mut $sqlx::Transaction<'_, $sqlx::Postgres>,
            ) -> Enlisted<$store, &'t mut $sqlx::PgConnection> {
                Enlisted::new(self.shared.clone(), &mut **transaction)
            }
        }

        impl Enlisted<$store, &mut $sqlx::PgConnection> {
            /// Writes the messages into the caller's transaction, with one statement.
            ///
            /// # Errors
            /// As for transactions of `tokio-postgres`.
            pub async fn flush(mut self) -> Result<Flushed<$store>> {
                let Some(mut service) = self.take_service() else { return Ok(Flushed(None)) };
                let shared = self.shared.clone();
                let Shared { store, jobs, .. } = &*shared;
                super::wait_for_capacity(&**jobs, service.pending(), self.when_full, true).await?;
                let savepoint = shared.is_wrapped();
                if savepoint {
                    store.lend(self.transaction).savepoint(SAVEPOINT).await?;
                }
                let written = service.flush(&mut FlushInto::enlisted(store.lend(self.transaction))).await;
                let ended = match savepoint {
                    true => store.lend(self.transaction).savepoint(end_of_savepoint(&written)).await,
                    false => Ok(()),
                };
                // The first error counts.
                let written = written.and_then(|written| ended.map(|()| written))?;
                Ok(Flushed(Some((service, written, shared.sent.clone()))))
            }
        }
    };
}

#[cfg(feature = "sqlx-0_8")]
transactions_of_sqlx! { crate::sqlx_0_8::Sqlx, sqlx_0_8 }
#[cfg(feature = "sqlx-0_9")]
transactions_of_sqlx! { crate::sqlx_0_9::Sqlx, sqlx_0_9 }

#[cfg(feature = "sqlite")]
impl Enlisted<crate::Sqlite, &rusqlite::Connection> {
    /// Writes the messages through the caller's connection, into the transaction it has open.
    ///
    /// # Errors
    /// When a statement fails, or a queue is full: a flush does not wait for capacity while it holds the write lock. The caller's
    /// transaction is unchanged.
    pub fn flush(mut self) -> Result<Flushed<crate::Sqlite>> {
        let Some(mut service) = self.take_service() else { return Ok(Flushed(None)) };
        crate::store::sqlite::refuse_full(self.transaction, service.pending())?;
        let (mut lent, desk) = self.shared.store.lend();
        let written = desk.serve(self.transaction, service.flush(&mut FlushInto::enlisted(&mut lent)))?;
        Ok(Flushed(Some((service, written, self.shared.sent.clone()))))
    }
}

/// Messages that were written in the caller's transaction. After its commit, [`committed`](Self::committed) delivers them or wakes the
/// executors. Without that call, executors find the jobs when they poll.
#[must_use = "call `committed` after the commit, or the jobs wait for the next poll"]
pub struct Flushed<S: Store = Postgres>(Option<(Box<dyn MessageService<S>>, Written, Sent)>);

impl<S: Store> Flushed<S> {
    /// Reports that the caller's transaction has committed. Delivers the messages or wakes executors, without waiting.
    pub fn committed(self) -> CommitReceipt {
        self.0.map_or_else(CommitReceipt::default, |(mut service, written, sent)| {
            sent.count(&written);
            super::notify_committed(written, |written| service.committed(written))
        })
    }
}

impl<S: Store, T> fmt::Debug for Enlisted<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enlisted").field("pending", &self.pending().len()).finish_non_exhaustive()
    }
}

impl<S: Store> fmt::Debug for Flushed<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let messages = self.0.as_ref().map_or(0, |(_, written, _)| written.messages().len());
        f.debug_struct("Flushed").field("messages", &messages).finish_non_exhaustive()
    }
}
