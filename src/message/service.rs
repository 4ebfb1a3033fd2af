//! The seam: what a message service is, where it flushes, and what it has written.

use std::collections::HashSet;

use async_trait::async_trait;

use super::Handoff;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Job, JobId, JobMessage, NewJob};
use crate::store::{Inserted, OwnedInsert, Preclaim, Store, TransactionRef, UnitOfWork};

/// Collects the messages of one unit of work, flushes them with its transaction, and hears of its commit. jBPM's `MessageService`, with a
/// commit protocol.
///
/// A service of yours wraps the one it is given, and overrides what it has something to say about; everything else goes to the
/// [inner](Self::inner) one. [`MessageServices::wrap`](crate::MessageServices::wrap) puts it around all that is sent: by contexts, handlers
/// (events and replies too) and enlisted transactions. It does not see what schedules, SQL, foreign producers and other programs send.
///
/// ```
/// use jobwright::message::{FlushInto, Handoff, MessageService, Written};
/// use jobwright::{Error, Job, JobId, NewJob, Postgres, Result, async_trait};
///
/// /// Writes a line of its own beside each message.
/// struct Audit(Box<dyn MessageService<Postgres>>);
///
/// #[async_trait]
/// impl MessageService<Postgres> for Audit {
///     fn inner(&self) -> Option<&dyn MessageService<Postgres>> {
///         Some(&*self.0)
///     }
///
///     fn inner_mut(&mut self) -> Option<&mut dyn MessageService<Postgres>> {
///         Some(&mut *self.0)
///     }
///
///     async fn flush(&mut self, into: &mut FlushInto<'_, Postgres>) -> Result<Written> {
///         let transaction = into.transaction().await?;      // with this, the line and the messages are one commit
///         for job in self.0.pending() {
///             let sql = "insert into audit (job, kind) values ($1, $2)";
///             transaction.execute(sql, &[job.id.as_uuid(), &job.kind]).await.map_err(Error::refused)?;
///         }
///         self.0.flush(into).await
///     }
/// }
///
/// # fn f(messages: jobwright::MessageServices) -> jobwright::MessageServices {
/// messages.wrap(Audit)
/// # }
/// ```
///
/// One service lives for one unit of work: it is made by the first `send`, so it may keep what it likes from there to the commit. It is
/// dropped with it. Dropped without [`committed`](Self::committed), nothing is known to have committed.
#[async_trait]
pub trait MessageService<S: Store>: Send {
    /// The service that this one wraps. `None` only for one that implements everything else.
    fn inner(&self) -> Option<&dyn MessageService<S>> {
        None
    }

    /// The service that this one wraps, to be used.
    fn inner_mut(&mut self) -> Option<&mut dyn MessageService<S>> {
        None
    }

    /// Collects a job, which the innermost service checks. `sender` is the job whose handler sends it.
    ///
    /// # Errors
    /// When it is refused: by its shape ([`is_invalid`](Error::is_invalid)), or by a service ([`Error::refused`]). What was collected before
    /// stays, and more can be sent.
    fn send(&mut self, job: NewJob, sender: Option<&Job>) -> Result<JobId> {
        match self.inner_mut() {
            Some(inner) => inner.send(job, sender),
            None => Err(wraps_none("send")),
        }
    }

    /// What a flush would write now, in the order of sending. Payloads are as they were sent: a [codec](crate::codec) comes later. With
    /// nothing pending there is no flush.
    fn pending(&self) -> &[JobMessage] {
        self.inner().map_or(&[], |inner| inner.pending())
    }

    /// Writes what was collected. Returns what the inner service has written.
    ///
    /// Refuse before the inner service has flushed, or [ask for the transaction](FlushInto::transaction): without one, that flush is a commit
    /// by itself. Return what the inner service returned (of two flushes [both](Written::and)). Do not return it if you rolled back to a savepoint taken
    /// before that flush.
    ///
    /// Wait for the transaction and the inner service, and for as little else as possible: connections and claims wait meanwhile. Under SQLite
    /// the write lock is held from the first use of the transaction on, and in one that is enlisted nothing else may be awaited at all. The
    /// whole flush of a context may take twice `database.call_timeout`.
    ///
    /// What is [sent](Self::send) here goes with the rest. It is seen by no [send hook](crate::MessageServices::on_send), and not counted when
    /// a queue is full.
    ///
    /// # Errors
    /// Whatever the commit is to fail with; all of it is rolled back. A handler's job has then failed, and is tried again. In a
    /// context a panic counts as an error.
    async fn flush(&mut self, into: &mut FlushInto<'_, S>) -> Result<Written> {
        match self.inner_mut() {
            Some(inner) => inner.flush(into).await,
            None => Err(wraps_none("flush")),
        }
    }

    /// The transaction has really committed: now, and only now, others may hear of it. Waits for nothing. If the commit's answer was lost and
    /// nobody could tell, this is never called. Of an enlisted transaction it is the caller who says so.
    fn committed(&mut self, written: Written) -> Handoff {
        self.inner_mut().map_or_else(Handoff::default, |inner| inner.committed(written))
    }
}

fn wraps_none(method: &str) -> Error {
    Error::config(format!("a message service wraps none, and does not implement `{method}`"))
}

/// Where a flush writes: into a transaction, or, if none is open and nobody asks for one, with a commit of its own.
pub struct FlushInto<'t, S: Store> {
    /// Where a context keeps its transaction, while it has opened none.
    unopened: Option<(&'t S, &'t mut Option<S::Transaction>)>,
    transaction: Option<TransactionRef<'t, S>>,
    /// The caller of `enlist` began it, and will commit it.
    enlisted: bool,
    alone: Alone,
    /// Rows that are to be born owned, for an executor in this process.
    pub(super) owned: Option<Preclaim>,
    /// The messages (by position) whose rows are kept back for their deliveries.
    pub(super) held: Vec<usize>,
}

/// How far the messages are that are written with a commit of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alone {
    Not,
    /// The statement is under way, or nobody knows its answer.
    UnderWay,
    Committed,
}

impl<S: Store> std::fmt::Debug for FlushInto<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = f.debug_struct("FlushInto");
        fields.field("open", &self.is_open()).field("enlisted", &self.enlisted).field("alone", &self.alone).finish()
    }
}

impl<'t, S: Store> FlushInto<'t, S> {
    pub(crate) fn context(store: &'t S, place: &'t mut Option<S::Transaction>) -> Self {
        match place {
            Some(transaction) => Self::new(None, Some(transaction.lend()), false),
            None => Self::new(Some((store, place)), None, false),
        }
    }

    pub(super) fn enlisted(transaction: TransactionRef<'t, S>) -> Self {
        Self::new(None, Some(transaction), true)
    }

    fn new(
        unopened: Option<(&'t S, &'t mut Option<S::Transaction>)>,
        transaction: Option<TransactionRef<'t, S>>,
        enlisted: bool,
    ) -> Self {
        Self { unopened, transaction, enlisted, alone: Alone::Not, owned: None, held: Vec::new() }
    }

    /// The transaction the messages are written into; opened, if the context has not. What is written here commits with the messages, or not at
    /// all.
    ///
    /// A context that has opened none pays for it: a transaction of three round trips, and no commit that it shares with others. Who writes
    /// nothing should not ask.
    ///
    /// # Errors
    /// When no connection can be had within the deadline; also after the inner service has flushed with a commit of its own.
    pub async fn transaction(&mut self) -> Result<&mut TransactionRef<'t, S>> {
        if self.alone == Alone::Not
            && let Some((store, _)) = &self.unopened
        {
            let begun = store.begin().await?;
            self.transaction = self.unopened.take().map(|(_, place)| place.insert(begun).lend());
        }
        self.transaction.as_mut().ok_or_else(|| {
            Error::new(
                ErrorKind::Refused,
                "a message service asked for the transaction after its messages had been committed: ask before the inner service flushes",
            )
        })
    }

    /// Whether a transaction is open. If not, and nobody [asks for one](Self::transaction), the messages are a commit by themselves.
    pub fn is_open(&self) -> bool {
        self.transaction.is_some()
    }

    /// Whether somebody else began the transaction, and will commit it.
    pub fn is_enlisted(&self) -> bool {
        self.enlisted
    }

    /// The transaction, if there is one.
    pub(super) fn open(&mut self) -> Option<&mut TransactionRef<'t, S>> {
        self.transaction.as_mut()
    }

    /// The messages are about to be written with a commit of their own.
    pub(super) fn begin_alone(&mut self) {
        self.alone = Alone::UnderWay;
    }

    /// What came of that.
    pub(super) fn end_alone(&mut self, inserted: &Result<Inserted>) {
        self.alone = match inserted {
            Ok(_) => Alone::Committed,
            Err(error) if error.may_have_taken_effect() => Alone::UnderWay,
            Err(_) => Alone::Not,
        };
    }

    /// What a flush came to, told as it is, whatever the services of the program say: after a commit nothing can be refused, and of one whose answer
    /// got lost nobody knows.
    pub(crate) fn outcome(&self, written: Result<Written>) -> Result<Written> {
        // The error is no cause: whoever finds a lost conflict there would send again at once.
        let unknown = |why: String| Err(Error::new(ErrorKind::CommitUnknown, why));
        match (self.alone, written) {
            (Alone::Not, written) | (Alone::Committed, written @ Ok(_)) => written,
            (Alone::UnderWay, Err(error)) if error.may_have_taken_effect() => Err(error),
            (Alone::UnderWay, Ok(_)) => {
                unknown("a message service hid that its messages may not have been committed".into())
            }
            (Alone::UnderWay, Err(error)) => unknown(format!(
                "a message service failed while its messages were being committed (they may be sent): {error}"
            )),
            (Alone::Committed, Err(error)) => unknown(format!(
                "a message service failed after its messages had been committed (they are sent): {error}"
            )),
        }
    }
}

/// Messages that were written, and are about to be committed, or are.
#[derive(Debug, Default)]
pub struct Written {
    pub(super) messages: Vec<JobMessage>,
    /// Those that an executor in this process owns.
    pub(super) owned: Vec<OwnedInsert>,
    pub(super) kept: Vec<(JobId, JobId)>,
}

impl Written {
    pub(super) fn new(mut messages: Vec<JobMessage>, inserted: Inserted) -> Self {
        let Inserted { owned, kept, .. } = inserted;
        if !kept.is_empty() {
            let gone: HashSet<JobId> = kept.iter().filter(|(id, holder)| id != holder).map(|(id, _)| *id).collect();
            messages.retain(|message| !gone.contains(&message.id));
        }
        Self { messages, owned, kept }
    }

    /// Nothing: for a service that keeps messages to itself.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Both, for a service that flushes the inner one twice.
    #[must_use]
    pub fn and(mut self, more: Self) -> Self {
        self.messages.extend(more.messages);
        self.owned.extend(more.owned);
        self.kept.extend(more.kept);
        self
    }

    /// The messages, without unique ones whose key another job holds. Payloads are as they are stored: what a [codec](crate::codec) has
    /// made of them.
    pub fn messages(&self) -> &[JobMessage] {
        &self.messages
    }

    /// Unique messages that were not written because another job holds their key: their id, and the id of that one.
    pub fn kept(&self) -> &[(JobId, JobId)] {
        &self.kept
    }
}
