//! The unit of work: a transaction and the messages that belong to it.

use std::fmt;
use std::sync::{Arc, PoisonError};

use crate::error::Result;
use crate::job::{ClaimNumber, Fence, IntoJob, Job, JobId, JobMessage, NewJob, NodeId};
use crate::message::{
    CommitReceipt, FlushInto, MessageService, MessageServices, RouteCounts, Shared, WhenFull, Written, flush_within,
    notify_committed, wait_for_capacity,
};
use crate::store::{GroupClaim, NewResult, Postgres, Removed, Store, UnitOfWork};

/// A unit of work: changes to your data, and the jobs they cause, which commit together or not at all.
///
/// The first call of [`transaction`](Self::transaction) opens the transaction. Messages are only collected until [`commit`](Self::commit).
/// A context that is dropped rolls back and discards its messages.
///
/// ```no_run
/// # async fn f(messages: jobwright::MessageServices) -> Result<(), Box<dyn std::error::Error>> {
/// use jobwright::NewJob;
///
/// let mut cx = messages.begin();
/// cx.transaction().await?.execute("insert into orders (id) values ($1)", &[&42_i64]).await?;
/// cx.send(NewJob::json("send-invoice", &42).priority(5))?;
/// cx.commit().await?;
/// # Ok(()) }
/// ```
#[must_use = "a context does nothing until it is committed"]
pub struct Context<S: Store = Postgres> {
    shared: Arc<Shared<S>>,
    /// Created by the first message: most handlers send none.
    service: Option<Box<dyn MessageService<S>>>,
    transaction: Option<S::Transaction>,
    when_full: WhenFull,
    /// The result of the handler that uses this context. Boxed, because few handlers have one.
    result: Option<Box<NewResult>>,
    /// It is meant to be dropped with messages: a handler's, whose failure discards them.
    is_quiet: bool,
}

impl<S: Store> fmt::Debug for Context<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("store", &self.shared.jobs.describe())
            .field("pending", &self.pending().len())
            .field("in_transaction", &self.transaction.is_some())
            .finish_non_exhaustive()
    }
}

impl<S: Store> Context<S> {
    fn new(shared: Arc<Shared<S>>, when_full: WhenFull) -> Self {
        Self { shared, service: None, transaction: None, result: None, when_full, is_quiet: false }
    }

    /// Says that it is a handler's.
    pub(crate) fn of_handler(mut self) -> Self {
        self.run_handler();
        self
    }

    /// Says that a handler runs in it.
    pub(crate) fn run_handler(&mut self) {
        self.is_quiet = true;
    }

    /// Returns the context's transaction; the first call opens it.
    ///
    /// # Errors
    /// When no connection is available within the deadline. The context stays usable.
    pub async fn transaction(&mut self) -> Result<&mut S::Transaction> {
        // Not `get_or_insert_with`: opening is async and may fail.
        let transaction = match self.transaction.take() {
            Some(open) => open,
            None => self.shared.store.begin().await?,
        };
        Ok(self.transaction.insert(transaction))
    }

    /// Sets what the commit does when a queue is full. The default is set with
    /// [`MessageServices::when_full`](crate::MessageServices::when_full).
    pub fn when_full(&mut self, when_full: WhenFull) -> &mut Self {
        self.when_full = when_full;
        self
    }

    /// Stores this result if the job succeeds. The last call counts.
    pub(crate) fn keep_result(&mut self, result: NewResult) {
        self.result = Some(Box::new(result));
    }

    /// Whether there may be anything to commit besides the end of the job. Does not call the service: a custom one may panic.
    pub(crate) fn is_used(&self) -> bool {
        self.has_transaction() || self.result.is_some() || self.service.is_some()
    }

    /// Whether a commit would write anything. Asks the service, so the caller has to catch panics.
    pub(crate) fn has_writes(&self) -> bool {
        self.has_transaction() || self.result.is_some() || !self.pending().is_empty()
    }

    /// Whether the transaction was opened.
    pub(crate) fn has_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Collects a message for the commit.
    ///
    /// # Errors
    /// When the message is refused: because it is invalid or by a [send hook](crate::MessageServices::on_send)
    /// ([`is_invalid`](crate::Error::is_invalid) for both), or by a custom [message service](crate::MessageService). Nothing was collected,
    /// and the context stays usable.
    pub fn send(&mut self, job: impl IntoJob<S>) -> Result<JobId> {
        self.service().send(job.into_job(), None)
    }

    /// Sends a job from the handler of `sender`.
    pub(crate) fn send_from(&mut self, job: NewJob, sender: &Job) -> Result<JobId> {
        self.service().send(sender.carry_trace(job), Some(sender))
    }

    /// Applies the send hooks to a job.
    pub(crate) fn hooked(&self, job: NewJob) -> Result<NewJob> {
        self.shared.hooked(job)
    }

    fn service(&mut self) -> &mut dyn MessageService<S> {
        &mut **self.service.get_or_insert_with(|| self.shared.open())
    }

    /// Returns the messages that a commit would flush now, in the order they were sent. Tests can check them before anything is stored.
    pub fn pending(&self) -> &[JobMessage] {
        self.service.as_ref().map_or(&[], |service| service.pending())
    }

    /// Flushes the messages, if there are any: into the transaction, or with a commit of their own. Returns the service to notify of the
    /// commit, and what it has written.
    async fn flush(&mut self) -> Result<Option<(Box<dyn MessageService<S>>, Written)>> {
        let Some(mut service) = self.service.take().filter(|service| !service.pending().is_empty()) else {
            return Ok(None);
        };
        // Before anything is written or reserved, because this may wait.
        wait_for_capacity(&*self.shared.jobs, service.pending(), self.when_full, self.has_transaction()).await?;
        let mut into = FlushInto::context(&self.shared.store, &mut self.transaction);
        let written = if self.shared.is_wrapped() {
            flush_within(2 * self.shared.call_timeout, service.flush(&mut into)).await
        } else {
            service.flush(&mut into).await
        };
        let written = into.outcome(written)?;
        Ok(Some((service, written)))
    }

    /// Flushes, commits, and notifies the message service.
    async fn finish(mut self) -> Result<CommitReceipt> {
        let flushed = self.flush().await?;
        if let Some(transaction) = self.transaction.take() {
            transaction.commit().await?;
        }
        Ok(flushed.map_or_else(CommitReceipt::default, |(mut service, written)| {
            self.shared.sent.count(&written);
            notify_committed(written, |written| service.committed(written))
        }))
    }

    /// Flushes the messages with one statement and commits. `Ok` means that the server really committed.
    ///
    /// # Errors
    /// * [`Aborted`](crate::ErrorKind::Aborted) when the server rolled back: an earlier statement failed, or a conflict was lost.
    /// * [`CommitUnknown`](crate::ErrorKind::CommitUnknown) or [`Timeout`](crate::ErrorKind::Timeout) when the answer was lost and the
    ///   server could not be asked. Also when a custom message service failed while its messages were being committed, or after that.
    /// * [`Conflict`](crate::ErrorKind::Conflict) when a unique job is to be rejected, or a given id is that of a job of another kind or queue.
    /// * [`Full`](crate::ErrorKind::Full) when a queue is full.
    /// * [`Refused`](crate::ErrorKind::Refused) when a custom message service refuses.
    ///
    /// After any error but `CommitUnknown` and `Timeout`, nothing was kept.
    pub async fn commit(self) -> Result<()> {
        self.commit_with_receipt().await.map(drop)
    }

    /// Commits like [`commit`](Self::commit), then waits until the broker has confirmed what went through it. Messages that it did not
    /// confirm in time are in the table, where executors find them. `Ok` means the same as for `commit`; the returned counts say where the
    /// messages went.
    ///
    /// # Errors
    /// As for `commit`. A failure after the commit is no error.
    pub async fn commit_confirmed(self) -> Result<RouteCounts> {
        Ok(self.commit_with_receipt().await?.settled().await)
    }

    /// Commits like [`commit`](Self::commit). The receipt says which jobs were sent before, and which unique ones were not sent.
    ///
    /// # Errors
    /// As for `commit`.
    pub async fn commit_with_receipt(self) -> Result<CommitReceipt> {
        Ok(self.finish().await?.waited().await)
    }

    /// Commits a handler's work: its writes, its messages and the removal of its job, or nothing. `false` means that the claim was no
    /// longer current and everything was rolled back.
    pub(crate) async fn commit_job(mut self, node: NodeId, fence: Fence) -> Result<bool> {
        self.transaction().await?;
        let Some(mut transaction) = self.transaction.take() else {
            return Ok(false);
        };
        // The removal comes first: it locks the row, so no other node claims it while the rest is written.
        let owned = transaction.remove(node, fence).await?;
        self.commit_removed(transaction, owned).await
    }

    /// Commits like [`commit_job`](Self::commit_job), for a job whose node claims the next job of the group.
    pub(crate) async fn commit_and_claim_next(
        mut self,
        node: NodeId,
        fence: Fence,
        claim_next: &GroupClaim,
        claim: ClaimNumber,
    ) -> Result<Removed> {
        self.transaction().await?;
        let Some(mut transaction) = self.transaction.take() else {
            return Ok(Removed::NotOwned);
        };
        let removed = transaction.remove_and_lease(node, fence, claim_next, claim).await?;
        self.commit_removed(transaction, removed != Removed::NotOwned).await?;
        Ok(removed)
    }

    /// Commits like [`commit_job`](Self::commit_job), for jobs that were handled as a batch.
    pub(crate) async fn commit_jobs(mut self, node: NodeId, fences: &[Fence]) -> Result<bool> {
        self.transaction().await?;
        let Some(mut transaction) = self.transaction.take() else {
            return Ok(false);
        };
        let owned = transaction.remove_all(node, fences).await?;
        self.commit_removed(transaction, owned).await
    }

    async fn commit_removed(mut self, mut transaction: S::Transaction, owned: bool) -> Result<bool> {
        if !owned {
            transaction.rollback().await?;
            return Ok(false);
        }
        if let Some(result) = self.result.take() {
            transaction.keep_result(&result).await?;
        }
        self.transaction = Some(transaction);
        drop(self.finish().await?);
        Ok(true)
    }

    /// Rolls back and discards the messages. Dropping the context does the same without waiting.
    ///
    /// # Errors
    /// When the server does not answer; it rolls back nevertheless.
    pub async fn rollback(mut self) -> Result<()> {
        self.service = None;
        match self.transaction.take() {
            Some(transaction) => transaction.rollback().await,
            None => Ok(()),
        }
    }
}

impl<S: Store> Drop for Context<S> {
    /// Warns that messages were discarded, because a missing `commit` looks like jobs that do not run. After an error (`?`) that is meant, so each kind is told
    /// once, and further ones to those who debug.
    fn drop(&mut self) {
        // A custom service may panic, and during a panic nothing needs to be told.
        if self.is_quiet || self.service.is_none() || std::thread::panicking() {
            return;
        }
        let Ok(Some((jobs, kind))) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            self.pending().first().map(|first| (self.pending().len(), first.kind.clone()))
        })) else {
            return;
        };
        let text = "a context was dropped before its `commit`: its jobs are not sent, and its transaction is rolled back; after an error this is \
                    right; otherwise call `rollback` to end a context on purpose";
        // Not locked while the log is written, which may drop another context.
        let is_first = {
            let mut told = self.shared.told_of_dropped.lock().unwrap_or_else(PoisonError::into_inner);
            told.len() < MOST_TOLD && told.insert(kind.clone())
        };
        if is_first {
            tracing::warn!(jobs, %kind, "{text}");
        } else {
            tracing::debug!(jobs, %kind, "{text}");
        }
    }
}

/// The kinds of which the log tells that they were dropped with a context.
const MOST_TOLD: usize = 100;

impl<S: Store> MessageServices<S> {
    /// Begins a unit of work. Costs nothing until it is used.
    pub fn begin(&self) -> Context<S> {
        Context::new(self.shared.clone(), self.shared.when_full)
    }

    /// Sends one message in a transaction of its own. Returns its id, or, for a unique job that was not sent, the id of the job that holds
    /// its key.
    ///
    /// # Errors
    /// When the message is refused, or could not be stored.
    pub async fn send(&self, job: impl IntoJob<S>) -> Result<JobId> {
        let mut context = self.begin();
        let id = context.send(job)?;
        let receipt = context.commit_with_receipt().await?;
        Ok(receipt.duplicates().iter().find(|(sent, _)| *sent == id).map_or(id, |(_, holder)| *holder))
    }
}
