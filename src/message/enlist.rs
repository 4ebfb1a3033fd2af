use std::sync::Arc;

use super::{FlushInto, Handoff, MessageService, Shared, WhenFull, Written};
use crate::error::Result;
use crate::job::{IntoJob, JobId, JobMessage};
use crate::store::{Postgres, Store};

/// Collects messages for a transaction that the caller owns, began, and will commit.
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
/// Dropped before [`flush`](Self::flush), it discards its messages, and warns; [`discard`](Self::discard) does so on purpose. A commit
/// before it is one or the other does not compile, because it holds the transaction:
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
pub struct Enlisted<'t, S: Store, T: ?Sized> {
    shared: Arc<Shared<S>>,
    /// Opened by the first message.
    service: Option<Box<dyn MessageService<S>>>,
    transaction: &'t T,
    when_full: WhenFull,
}

impl<'t, S: Store, T: ?Sized> Enlisted<'t, S, T> {
    pub(super) fn new(shared: Arc<Shared<S>>, transaction: &'t T) -> Self {
        Self { when_full: shared.when_full, shared, service: None, transaction }
    }

    /// Checks a message and collects it.
    ///
    /// # Errors
    /// When the message is refused; what was collected before stays.
    pub fn send(&mut self, job: impl IntoJob<S>) -> Result<JobId> {
        self.service.get_or_insert_with(|| self.shared.open()).send(job.into_job(), None)
    }

    /// What the flush does when a queue is full.
    pub fn when_full(&mut self, when_full: WhenFull) -> &mut Self {
        self.when_full = when_full;
        self
    }

    /// What a flush would write now.
    pub fn pending(&self) -> &[JobMessage] {
        self.service.as_ref().map_or(&[], |service| service.pending())
    }

    /// Sends nothing of what was collected.
    pub fn discard(mut self) {
        self.service = None;
    }

    /// What has to be flushed, if there is something. From here on a failure says so itself.
    fn take_service(&mut self) -> Option<Box<dyn MessageService<S>>> {
        self.service.take().filter(|service| !service.pending().is_empty())
    }
}

impl<S: Store, T: ?Sized> Drop for Enlisted<'_, S, T> {
    fn drop(&mut self) {
        // A panic is louder.
        if let Some(first) = self.pending().first().filter(|_| !std::thread::panicking()) {
            tracing::warn!(
                jobs = self.pending().len(), first = %first.id, kind = %first.kind,
                "jobs that were enlisted in a transaction are dropped before `flush`, and never sent (`discard` does so without a warning)"
            );
        }
    }
}

impl Enlisted<'_, Postgres, tokio_postgres::Transaction<'_>> {
    /// Writes the messages into the caller's transaction, with one statement.
    ///
    /// # Errors
    /// When the statement fails; then the caller's transaction is aborted. With [`Conflict`](crate::ErrorKind::Conflict) it is not: nothing
    /// was written, and it goes on. If your own message services wrap ours, a savepoint is set, so it goes on after their errors too. If this future
    /// is dropped before it completes, roll the transaction back: it may hold part of what they wrote.
    pub async fn flush(mut self) -> Result<Flushed<Postgres>> {
        let Some(mut service) = self.take_service() else { return Ok(Flushed(None)) };
        let Shared { store, jobs, .. } = &*self.shared;
        super::make_room(&**jobs, service.pending(), self.when_full, true).await?;
        let lent = crate::PgTransactionRef::enlisted(store, self.transaction);
        let savepoint = self.shared.is_wrapped();
        if savepoint {
            lent.savepoint("savepoint jobwright_flush").await?;
        }
        let written = service.flush(&mut FlushInto::enlisted(lent)).await;
        if savepoint {
            let lent = crate::PgTransactionRef::enlisted(store, self.transaction);
            let end = match &written {
                Ok(_) => "release jobwright_flush",
                Err(_) => "rollback to jobwright_flush; release jobwright_flush",
            };
            let ended = lent.savepoint(end).await;
            // The first error is what counts.
            return written.and_then(|written| ended.map(|()| Flushed(Some((service, written)))));
        }
        Ok(Flushed(Some((service, written?))))
    }
}

#[cfg(feature = "sqlite")]
impl Enlisted<'_, crate::Sqlite, rusqlite::Connection> {
    /// Writes the messages through the caller's connection, into the transaction it has open.
    ///
    /// # Errors
    /// When a statement fails, or a queue is full: nothing waits for room while it holds the write lock. The caller's transaction is as it was.
    pub fn flush(mut self) -> Result<Flushed<crate::Sqlite>> {
        let Some(mut service) = self.take_service() else { return Ok(Flushed(None)) };
        crate::store::sqlite::refuse_full(self.transaction, service.pending())?;
        let (mut lent, desk) = crate::SqliteTransaction::lent(&self.shared.store);
        let written = desk.serve(self.transaction, service.flush(&mut FlushInto::enlisted(&mut lent)))?;
        Ok(Flushed(Some((service, written))))
    }
}

/// Messages that are in the caller's transaction. After its commit, [`committed`](Self::committed) delivers them or wakes the
/// executors; without it they find the jobs when they poll.
#[must_use = "call `committed` after the commit, or the jobs wait for the next poll"]
pub struct Flushed<S: Store = Postgres>(Option<(Box<dyn MessageService<S>>, Written)>);

impl<S: Store> Flushed<S> {
    /// The caller's transaction has committed: spread the word. Does not wait for it.
    pub fn committed(self) -> Handoff {
        self.0.map_or_else(Handoff::default, |(mut service, written)| super::tell(&mut *service, written))
    }
}
