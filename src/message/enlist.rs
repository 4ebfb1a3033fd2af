use std::sync::Arc;

use super::flush::{spread, written};
use super::pipe::Pipe;
use super::room::make_room;
use super::{Collected, Handoff, Hooks, WakeUp, WhenFull};
use crate::error::Result;
use crate::job::{IntoJob, JobId, JobMessage};
use crate::store::{Inserted, Store};

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
    pub(super) collected: Collected,
    pub(super) hooks: Hooks,
    pub(super) wakeup: Arc<WakeUp>,
    pub(super) pipe: Option<Arc<Pipe>>,
    pub(super) store: S,
    pub(super) transaction: &'t T,
    pub(super) when_full: WhenFull,
    /// It was tried to write them.
    pub(super) flushing: bool,
}

impl<S: Store, T: ?Sized> Enlisted<'_, S, T> {
    /// Checks a message and collects it.
    ///
    /// # Errors
    /// When the message is refused; what was collected before stays.
    pub fn send(&mut self, job: impl IntoJob<S>) -> Result<JobId> {
        self.collected.send(self.hooks.apply(job.into_job(), None)?)
    }

    /// What the flush does when a queue is full.
    pub fn when_full(&mut self, when_full: WhenFull) -> &mut Self {
        self.when_full = when_full;
        self
    }

    /// What a flush would write now.
    pub fn pending(&self) -> &[JobMessage] {
        self.collected.messages()
    }

    /// Sends nothing of what was collected.
    pub fn discard(mut self) {
        self.collected.take();
    }

    /// Marks what goes through the broker.
    fn plan(&mut self) {
        if let Some(pipe) = &self.pipe {
            pipe.hold(self.collected.messages_mut(), |_| false);
        }
    }

    fn flushed(mut self, inserted: Inserted) -> Flushed {
        let messages = written(self.collected.take(), &inserted.kept);
        Flushed { messages, kept: inserted.kept, wakeup: self.wakeup.clone(), pipe: self.pipe.take() }
    }
}

impl<S: Store, T: ?Sized> Drop for Enlisted<'_, S, T> {
    fn drop(&mut self) {
        // A flush that failed has said so itself, and a panic is louder.
        if let Some(first) = self.collected.messages().first().filter(|_| !self.flushing && !std::thread::panicking()) {
            tracing::warn!(
                jobs = self.collected.messages().len(), first = %first.id, kind = %first.kind,
                "jobs that were enlisted in a transaction are dropped before `flush`, and never sent (`discard` does so without a warning)"
            );
        }
    }
}

impl Enlisted<'_, crate::Postgres, tokio_postgres::Transaction<'_>> {
    /// Writes the messages into the caller's transaction, with one statement.
    ///
    /// # Errors
    /// When the statement fails; then the caller's transaction is aborted. With [`Conflict`](crate::ErrorKind::Conflict) it is not: nothing
    /// was written, and it goes on.
    pub async fn flush(mut self) -> Result<Flushed> {
        self.flushing = true;
        self.collected.encode()?;
        make_room(&self.store, self.collected.messages(), self.when_full, true).await?;
        self.plan();
        let inserted = self.store.insert_into(self.transaction, self.collected.messages()).await?;
        Ok(self.flushed(inserted))
    }
}

#[cfg(feature = "sqlite")]
impl Enlisted<'_, crate::Sqlite, rusqlite::Connection> {
    /// Writes the messages through the caller's connection, into the transaction it has open.
    ///
    /// # Errors
    /// When a statement fails, or a queue is full: nothing waits for room while it holds the write lock.
    pub fn flush(mut self) -> Result<Flushed> {
        self.flushing = true;
        self.collected.encode()?;
        crate::store::sqlite::refuse_full(self.transaction, self.collected.messages())?;
        self.plan();
        let inserted = crate::store::sqlite::insert_into(self.transaction, self.collected.messages())?;
        Ok(self.flushed(inserted))
    }
}

/// Messages that are in the caller's transaction. After its commit, [`committed`](Self::committed) delivers them or wakes the
/// executors; without it they find the jobs when they poll.
#[must_use = "call `committed` after the commit, or the jobs wait for the next poll"]
pub struct Flushed {
    messages: Vec<JobMessage>,
    kept: Vec<(JobId, JobId)>,
    wakeup: Arc<WakeUp>,
    pipe: Option<Arc<Pipe>>,
}

impl Flushed {
    /// The caller's transaction has committed: spread the word. Does not wait for it.
    pub fn committed(self) -> Handoff {
        spread(&self.wakeup, self.pipe.as_ref(), self.messages, 0).kept_back(self.kept)
    }
}
