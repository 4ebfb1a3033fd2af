//! The message service interface: what a service is, where it flushes, and what it has written.

use std::collections::HashSet;

use async_trait::async_trait;

use super::CommitReceipt;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Job, JobId, JobMessage, NewJob};
use crate::store::{Inserted, OwnedInsert, Preclaim, Store, TransactionRef, UnitOfWork};

/// Collects the messages of one unit of work, flushes them with its transaction, and is notified of its commit. It is jBPM's
/// `MessageService` with a commit protocol.
///
/// A custom service wraps the one it is given and overrides the methods it cares about; everything else goes to the [inner](Self::inner)
/// one. [`MessageServices::wrap`](crate::MessageServices::wrap) puts it around everything sent by contexts, handlers (including events and
/// replies) and enlisted transactions. It does not see what schedules, SQL, external producers and other programs send.
///
/// ```
/// use jobwright::message::{FlushInto, CommitReceipt, MessageService, Written};
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
/// One service lives for one unit of work. The first `send` creates it, so it may keep state from there to the commit. It is dropped with
/// the unit of work. If [`committed`](Self::committed) was not called before that, no commit is known.
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a message service for the store `{S}`",
    note = "implement `MessageService<{S}>`: `inner` and `inner_mut` are enough for a service that changes nothing"
)]
pub trait MessageService<S: Store>: Send {
    /// Returns the service that this one wraps. `None` only for a service that implements all other methods itself.
    fn inner(&self) -> Option<&dyn MessageService<S>> {
        None
    }

    /// Returns the service that this one wraps, for calls that change it.
    fn inner_mut(&mut self) -> Option<&mut dyn MessageService<S>> {
        None
    }

    /// Collects a job, which the innermost service checks. `sender` is the job whose handler sends it.
    ///
    /// # Errors
    /// When the job is refused: because it is invalid ([`is_invalid`](Error::is_invalid)), or by a service ([`Error::refused`]). Messages
    /// collected before stay, and more can be sent.
    fn send(&mut self, job: NewJob, sender: Option<&Job>) -> Result<JobId> {
        match self.inner_mut() {
            Some(inner) => inner.send(job, sender),
            None => Err(wraps_none("send")),
        }
    }

    /// Returns the messages that a flush would write now, in the order they were sent. Payloads are as sent: a [codec](crate::codec) is
    /// applied later. If nothing is pending, there is no flush.
    fn pending(&self) -> &[JobMessage] {
        self.inner().map_or(&[], |inner| inner.pending())
    }

    /// Writes the collected messages. Returns what the inner service has written.
    ///
    /// A service that may refuse must do so before the inner service has flushed, or else [ask for the
    /// transaction](FlushInto::transaction): without one, that flush is a commit. Return what the inner service returned (of two flushes,
    /// [both](Written::and)). Do not return it if you rolled back to a savepoint taken before that flush.
    ///
    /// Await the transaction and the inner service, and as little else as possible: connections and claims wait meanwhile. On SQLite, the
    /// write lock is held from the first use of the transaction, and in an enlisted transaction nothing else may be awaited at all. The
    /// whole flush of a context may take twice `database.call_timeout`.
    ///
    /// Messages [sent](Self::send) here are written with the rest. [Send hooks](crate::MessageServices::on_send) do not see them, and they
    /// are not counted when a queue is full.
    ///
    /// # Errors
    /// The error that the commit is to fail with; everything is rolled back. If the commit is a handler's, its job has failed and is
    /// retried. In a context, a panic counts as an error.
    async fn flush(&mut self, into: &mut FlushInto<'_, S>) -> Result<Written> {
        match self.inner_mut() {
            Some(inner) => inner.flush(into).await,
            None => Err(wraps_none("flush")),
        }
    }

    /// Called when the transaction has really committed: now, and only now, others may learn of it. Does not wait. If the commit's answer
    /// was lost and the outcome is unknown, this is never called. For an enlisted transaction, the caller reports the commit.
    fn committed(&mut self, written: Written) -> CommitReceipt {
        self.inner_mut().map_or_else(CommitReceipt::default, |inner| inner.committed(written))
    }
}

fn wraps_none(method: &str) -> Error {
    Error::config(format!("a message service wraps none, and does not implement `{method}`"))
}

/// Where a flush writes: into a transaction, or with a commit of its own if none is open and no service asks for one.
pub struct FlushInto<'t, S: Store> {
    /// Where the context stores its transaction, as long as it has opened none.
    unopened: Option<(&'t S, &'t mut Option<S::Transaction>)>,
    transaction: Option<TransactionRef<'t, S>>,
    /// The caller of `enlist` began the transaction, and will commit it.
    enlisted: bool,
    /// The outcome of what was committed separately, of several such commits the one that says least.
    own_commit: OwnCommit,
    /// Whether such a commit is in flight.
    committing: bool,
    /// Rows to insert as already claimed by an executor in this process.
    pub(super) owned: Option<Preclaim>,
    /// The messages (by position) whose rows are hidden for their deliveries.
    pub(super) hidden: Vec<usize>,
}

/// What is known about messages that were written with a commit of their own. Later variants outweigh earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OwnCommit {
    /// There are none.
    Not,
    Committed,
    /// The answer of a commit was lost.
    Unknown,
}

impl<S: Store> std::fmt::Debug for FlushInto<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = f.debug_struct("FlushInto");
        fields
            .field("open", &self.is_open())
            .field("enlisted", &self.enlisted)
            .field("own_commit", &self.known())
            .finish()
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
        Self {
            unopened,
            transaction,
            enlisted,
            own_commit: OwnCommit::Not,
            committing: false,
            owned: None,
            hidden: Vec::new(),
        }
    }

    /// Returns the transaction that the messages are written into, and opens it if the context has not. Writes made here commit together
    /// with the messages, or not at all.
    ///
    /// For a context that has opened none this has a price: a transaction takes three round trips, and its commit is not shared with other
    /// contexts. A service that writes nothing should not ask.
    ///
    /// # Errors
    /// When no connection is available within the deadline; also after the inner service has flushed with a commit of its own.
    pub async fn transaction(&mut self) -> Result<&mut TransactionRef<'t, S>> {
        if self.known() == OwnCommit::Not
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

    /// Whether a transaction is open. If not, and no service [asks for one](Self::transaction), the messages are committed on their own.
    pub fn is_open(&self) -> bool {
        self.transaction.is_some()
    }

    /// Whether the caller began the transaction, and will commit it.
    pub fn is_enlisted(&self) -> bool {
        self.enlisted
    }

    /// Returns the transaction, if one is open.
    pub(super) fn open(&mut self) -> Option<&mut TransactionRef<'t, S>> {
        self.transaction.as_mut()
    }

    /// Records that messages are about to be written with a commit of their own.
    ///
    /// # Errors
    /// When the answer of an earlier one was lost: its messages may be committed, and this one could write them again.
    pub(super) fn begin_own_commit(&mut self) -> Result<()> {
        if self.known() == OwnCommit::Unknown {
            return Err(Error::new(
                ErrorKind::Refused,
                "a message service flushed again after the answer of a commit had been lost: report the first error instead",
            ));
        }
        self.committing = true;
        Ok(())
    }

    /// Records the outcome of that commit.
    pub(super) fn end_own_commit(&mut self, inserted: &Result<Inserted>) {
        let outcome = match inserted {
            Ok(_) => OwnCommit::Committed,
            Err(error) if error.may_have_taken_effect() => OwnCommit::Unknown,
            Err(_) => OwnCommit::Not,
        };
        (self.own_commit, self.committing) = (self.own_commit.max(outcome), false);
    }

    fn known(&self) -> OwnCommit {
        if self.committing { OwnCommit::Unknown } else { self.own_commit }
    }

    /// Returns the true outcome of a flush, whatever custom services return. After a commit nothing can be refused, and if the answer of a
    /// commit was lost, its outcome is unknown.
    pub(crate) fn outcome(&self, written: Result<Written>) -> Result<Written> {
        // The error is not the source: a caller that finds a lost conflict there would send again at once.
        let unknown = |why: String| Err(Error::new(ErrorKind::CommitUnknown, why));
        match (self.known(), written) {
            (OwnCommit::Not, written) | (OwnCommit::Committed, written @ Ok(_)) => written,
            // Only these two mean to a caller that the commit may have taken effect.
            (OwnCommit::Unknown, Err(error))
                if matches!(error.kind(), ErrorKind::CommitUnknown | ErrorKind::Timeout) =>
            {
                Err(error)
            }
            (OwnCommit::Unknown, Ok(_)) => {
                unknown("a message service hid that its messages may not have been committed".into())
            }
            (OwnCommit::Unknown, Err(error)) => unknown(format!(
                "a message service failed while its messages were being committed (they may be sent): {error}"
            )),
            (OwnCommit::Committed, Err(error)) => unknown(format!(
                "a message service failed after its messages had been committed (they are sent): {error}"
            )),
        }
    }
}

/// Messages that were written, and are committed or about to be.
#[derive(Debug, Default)]
pub struct Written {
    pub(super) messages: Vec<JobMessage>,
    /// Rows that an executor in this process owns.
    pub(super) owned: Vec<OwnedInsert>,
    pub(super) duplicates: Vec<(JobId, JobId)>,
}

impl Written {
    pub(super) fn new(mut messages: Vec<JobMessage>, inserted: Inserted) -> Self {
        let Inserted { owned, duplicates, .. } = inserted;
        if !duplicates.is_empty() {
            let gone: HashSet<JobId> =
                duplicates.iter().filter(|(id, holder)| id != holder).map(|(id, _)| *id).collect();
            messages.retain(|message| !gone.contains(&message.id));
        }
        Self { messages, owned, duplicates }
    }

    /// Returns an empty result, for a service that keeps messages to itself.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Combines both results, for a service that flushes the inner one twice.
    #[must_use]
    pub fn and(mut self, more: Self) -> Self {
        self.messages.extend(more.messages);
        self.owned.extend(more.owned);
        self.duplicates.extend(more.duplicates);
        self
    }

    /// Returns the messages, without unique ones whose key another job holds. Payloads are as stored, encoded by the
    /// [codecs](crate::codec).
    pub fn messages(&self) -> &[JobMessage] {
        &self.messages
    }

    /// Returns the unique messages that were not written because another job holds their key: pairs of their id and the id of that job.
    pub fn duplicates(&self) -> &[(JobId, JobId)] {
        &self.duplicates
    }
}
