//! The steps of a flush: the check of full queues, where the messages are written, the limit for custom services, what was written, and
//! the notice of the commit.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::CommitReceipt;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobId, JobMessage};
use crate::panic::text;
use crate::store::queue_capacity::queues;
use crate::store::{Enqueue, FullQueue, Inserted, OwnedInsert, Preclaim, Store, TransactionRef, UnitOfWork};

/// First and longest pause between two checks of a full queue.
const LOOK: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(500));

/// What a commit does when a queue holds as many waiting jobs as its rule allows ([`Rule::depth`](crate::store::Rule::depth)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenFull {
    /// The commit fails with [`ErrorKind::Full`], and nothing is kept.
    #[default]
    Refuse,
    /// The commit waits for capacity before it writes its messages, at most this long; then it fails likewise. A transaction that is open
    /// meanwhile keeps its locks. On SQLite, a context that has opened its transaction does not wait: no other connection could write and
    /// free capacity.
    Wait(Duration),
}

/// Returns when the queues have capacity for the messages. `locked`: a transaction is open meanwhile.
pub(crate) async fn wait_for_capacity(
    store: &dyn Enqueue,
    messages: &[JobMessage],
    when_full: WhenFull,
    locked: bool,
) -> Result<()> {
    let queues = queues(messages);
    if queues.is_empty() {
        return Ok(());
    }
    let begun = Instant::now();
    let mut pause = LOOK.0;
    loop {
        let full: Vec<FullQueue> = store.full(&queues).await?;
        let Some(first) = full.first() else { return Ok(()) };
        let left = match when_full {
            WhenFull::Wait(patience) if !(locked && store.is_single_writer()) => {
                patience.saturating_sub(begun.elapsed())
            }
            _ => Duration::ZERO,
        };
        if left.is_zero() {
            return Err(first.error());
        }
        tokio::time::sleep(pause.min(left)).await;
        pause = (pause * 2).min(LOOK.1);
    }
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
    /// The messages whose rows are hidden for their deliveries.
    pub(super) hidden: HashSet<JobId>,
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
            hidden: HashSet::new(),
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

/// Runs a flush through custom services with a deadline: one that hangs or panics must take no job and no other commit with it. A service
/// that panics is dropped, together with its transaction.
pub(crate) async fn flush_within(
    limit: Duration,
    flush: impl Future<Output = Result<Written>> + Send,
) -> Result<Written> {
    match tokio::time::timeout(limit, AssertUnwindSafe(flush).catch_unwind()).await {
        Ok(Ok(written)) => written,
        Ok(Err(panic)) => {
            Err(Error::new(ErrorKind::Refused, format!("a message service panicked in its flush: {}", text(&*panic))))
        }
        Err(_) => Err(Error::new(
            ErrorKind::Timeout,
            format!(
                "the message services of the program did not flush within {limit:?} (twice `database.call_timeout`)"
            ),
        )),
    }
}

/// Messages that were written, and are committed or about to be.
#[derive(Debug, Default)]
pub struct Written {
    pub(super) messages: Vec<JobMessage>,
    /// Rows that an executor in this process owns.
    pub(super) owned: Vec<OwnedInsert>,
    pub(super) duplicates: Vec<(JobId, JobId)>,
    pub(super) known: Vec<JobId>,
}

impl Written {
    pub(super) fn new(mut messages: Vec<JobMessage>, inserted: Inserted) -> Self {
        let Inserted { owned, duplicates, known, .. } = inserted;
        if !duplicates.is_empty() {
            let gone: HashSet<JobId> =
                duplicates.iter().filter(|(id, holder)| id != holder).map(|(id, _)| *id).collect();
            messages.retain(|message| !gone.contains(&message.id));
        }
        Self { messages, owned, duplicates, known }
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
        self.known.extend(more.known);
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

/// Notifies the services of a commit. The commit stands, whatever they do.
pub(crate) fn notify_committed(written: Written, notify: impl FnOnce(Written) -> CommitReceipt) -> CommitReceipt {
    let (duplicates, known) = (written.duplicates.clone(), written.known.clone());
    catch_unwind(AssertUnwindSafe(|| notify(written))).unwrap_or_else(|panic| {
        tracing::error!(
            panic = text(&*panic),
            "a message service panicked when it heard of a commit: executors find the messages when they poll"
        );
        CommitReceipt::default().with_duplicates(duplicates).with_known(known)
    })
}
