//! The unit of work: a transaction and the messages that belong to it.

use std::sync::Arc;

use crate::error::Result;
use crate::job::{ClaimNumber, Fence, IntoJob, Job, JobId, JobMessage, NewJob, NodeId};
use crate::message::{
    FlushInto, Handoff, MessageService, Shared, WentTo, WhenFull, Written, flush_within, make_room, tell,
};
use crate::store::{GroupTurn, NewResult, Postgres, Removed, Store, UnitOfWork};

/// A unit of work: changes to your data, and the jobs they cause, which commit together or not at all.
///
/// The transaction is opened when it is first asked for; messages are only collected until [`commit`](Self::commit). A context
/// that is dropped rolls back and discards its messages.
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
    /// Opened by the first message: most handlers send none.
    service: Option<Box<dyn MessageService<S>>>,
    transaction: Option<S::Transaction>,
    when_full: WhenFull,
    /// What the handler that uses this context returns; boxed, because few do.
    result: Option<Box<NewResult>>,
}

impl<S: Store> Context<S> {
    pub(crate) fn new(shared: Arc<Shared<S>>, when_full: WhenFull) -> Self {
        Self { shared, service: None, transaction: None, result: None, when_full }
    }

    /// The context's transaction; the first call opens it.
    ///
    /// # Errors
    /// When no connection can be had within the deadline. The context stays usable.
    pub async fn transaction(&mut self) -> Result<&mut S::Transaction> {
        // Not `get_or_insert_with`: opening is async and may fail.
        let transaction = match self.transaction.take() {
            Some(open) => open,
            None => self.shared.store.begin().await?,
        };
        Ok(self.transaction.insert(transaction))
    }

    /// What the commit does when a queue is full. Without a call: as [`MessageServices::when_full`](crate::MessageServices::when_full) says.
    pub fn when_full(&mut self, when_full: WhenFull) -> &mut Self {
        self.when_full = when_full;
        self
    }

    /// Keeps this with the end of the job, if it succeeds. The last one counts.
    pub(crate) fn keep_result(&mut self, result: NewResult) {
        self.result = Some(Box::new(result));
    }

    /// Whether there may be anything to commit but the end of the job. Asks no service: one of the program may panic.
    pub(crate) fn is_used(&self) -> bool {
        self.has_transaction() || self.result.is_some() || self.service.is_some()
    }

    /// Whether the transaction was opened.
    pub(crate) fn has_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Collects a message for the commit.
    ///
    /// # Errors
    /// When the message is refused: by its own shape or by a [send hook](crate::MessageServices::on_send)
    /// ([`is_invalid`](crate::Error::is_invalid)), or by a [message service](crate::MessageService) of the program. Nothing was collected, the
    /// context stays usable.
    pub fn send(&mut self, job: impl IntoJob<S>) -> Result<JobId> {
        self.service().send(job.into_job(), None)
    }

    /// `sender`: the job whose handler sends.
    pub(crate) fn send_from(&mut self, job: NewJob, sender: &Job) -> Result<JobId> {
        self.service().send(sender.carry_trace(job), Some(sender))
    }

    /// A job as the send hooks leave it.
    pub(crate) fn hooked(&self, job: NewJob) -> Result<NewJob> {
        self.shared.hooked(job)
    }

    fn service(&mut self) -> &mut dyn MessageService<S> {
        &mut **self.service.get_or_insert_with(|| self.shared.open())
    }

    /// What a commit would flush now, in the order of sending. Tests can look here before anything is stored.
    pub fn pending(&self) -> &[JobMessage] {
        self.service.as_ref().map_or(&[], |service| service.pending())
    }

    /// Flushes what there is: into the transaction, or with a commit of its own. Returns who is to hear of the commit, and of what.
    async fn flush(&mut self) -> Result<Option<(Box<dyn MessageService<S>>, Written)>> {
        let Some(mut service) = self.service.take().filter(|service| !service.pending().is_empty()) else {
            return Ok(None);
        };
        // Before anything is written or reserved: it may wait.
        make_room(&*self.shared.jobs, service.pending(), self.when_full, self.has_transaction()).await?;
        let mut into = FlushInto::context(&self.shared.store, &mut self.transaction);
        let written = if self.shared.is_wrapped() {
            flush_within(2 * self.shared.call_timeout, service.flush(&mut into)).await
        } else {
            service.flush(&mut into).await
        };
        let written = into.outcome(written)?;
        Ok(Some((service, written)))
    }

    /// Flushes, commits, and tells.
    async fn finish(mut self) -> Result<Handoff> {
        let flushed = self.flush().await?;
        if let Some(transaction) = self.transaction.take() {
            transaction.commit().await?;
        }
        Ok(flushed.map_or_else(Handoff::default, |(mut service, written)| tell(&mut *service, written)))
    }

    /// Flushes the messages with one statement and commits, proven: `Ok` means that the server really committed.
    ///
    /// # Errors
    /// [`Aborted`](crate::ErrorKind::Aborted) when the server rolled back (an earlier statement failed, a conflict was lost);
    /// [`CommitUnknown`](crate::ErrorKind::CommitUnknown) or [`Timeout`](crate::ErrorKind::Timeout) when the answer got lost
    /// and the server could not be asked; or when a message service of the program failed while its messages were being committed, or after that;
    /// [`Conflict`](crate::ErrorKind::Conflict) when a unique job is to be rejected; [`Full`](crate::ErrorKind::Full) when a queue is;
    /// [`Refused`](crate::ErrorKind::Refused) when a message service of the program refuses. In all other cases nothing was kept.
    pub async fn commit(self) -> Result<()> {
        self.hand_off().await.map(drop)
    }

    /// Like [`commit`](Self::commit), and then waits until the broker has confirmed what went through it. What it did not
    /// confirm in time is in the table, where executors find it: `Ok` means the same as for `commit`, and the answer tells
    /// where the messages went.
    ///
    /// # Errors
    /// As for `commit`. What happens after the commit is no error.
    pub async fn commit_confirmed(self) -> Result<WentTo> {
        Ok(self.hand_off().await?.settled().await)
    }

    pub(crate) async fn hand_off(self) -> Result<Handoff> {
        Ok(self.finish().await?.waited().await)
    }

    /// The commit of a handler: its writes, its messages and the removal of its job, or nothing. `false`: the claim is no longer
    /// current, and everything was rolled back.
    pub(crate) async fn commit_job(mut self, node: NodeId, fence: Fence) -> Result<bool> {
        self.transaction().await?;
        let Some(mut transaction) = self.transaction.take() else {
            return Ok(false);
        };
        // Removed first: that locks the row, so nobody takes it while the rest is written.
        let owned = transaction.remove(node, fence).await?;
        self.commit_removed(transaction, owned).await
    }

    /// The same for a job with whose group its node goes on.
    pub(crate) async fn commit_in_turn(
        mut self,
        node: NodeId,
        fence: Fence,
        turn: &GroupTurn,
        claim: ClaimNumber,
    ) -> Result<Removed> {
        self.transaction().await?;
        let Some(mut transaction) = self.transaction.take() else {
            return Ok(Removed::NotOwned);
        };
        let removed = transaction.remove_and_lease(node, fence, turn, claim).await?;
        self.commit_removed(transaction, removed != Removed::NotOwned).await?;
        Ok(removed)
    }

    /// The same for jobs that were handled together.
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

    /// Rolls back and discards the messages. Dropping does the same without waiting for it.
    ///
    /// # Errors
    /// When the server does not answer; it rolls back anyway.
    pub async fn rollback(mut self) -> Result<()> {
        match self.transaction.take() {
            Some(transaction) => transaction.rollback().await,
            None => Ok(()),
        }
    }
}
