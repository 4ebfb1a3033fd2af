//! The message service interface.

use async_trait::async_trait;

use super::{CommitReceipt, FlushInto, Written};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Job, JobId, JobMessage, NewJob};
use crate::store::{Store, kind_of};

/// Collects the messages of one unit of work, flushes them with its transaction, and is notified of its commit. It is jBPM's
/// `MessageService` with a commit protocol.
///
/// A custom service wraps the one it is given and overrides the methods it cares about; everything else goes to the [inner](Self::inner)
/// one. [`MessageServices::wrap`](crate::MessageServices::wrap) puts it around everything sent by contexts, handlers (including events and
/// replies) and enlisted transactions. It does not see what schedules, SQL, external producers and other programs send.
///
/// ```
/// use jobwright::{FlushInto, CommitReceipt, MessageService, Written};
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

impl Error {
    /// Makes the error with which a [message service](crate::MessageService) refuses a send or a flush: `.map_err(Error::refused)?`.
    ///
    /// An error of this library stays as it is. A retryable error of a database driver (a lost connection, a lost conflict) keeps its kind,
    /// so that the commit may be tried again. Any other error, or a text, becomes [`ErrorKind::Refused`] with the given error as its
    /// source.
    pub fn refused(why: impl Into<crate::BoxError>) -> Self {
        let why = match why.into().downcast::<Self>() {
            Ok(error) => return *error,
            Err(why) => why,
        };
        let kind = kind_of(&*why).filter(|kind| kind.is_retryable()).unwrap_or(ErrorKind::Refused);
        Self::new(kind, format!("a message service refused: {why}")).with_source(why)
    }
}
