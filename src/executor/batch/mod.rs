//! Handlers that take many jobs with one call.
//!
//! ```text
//!  Dispatcher ─▶ start ─▶ gather: waits for others of its kind and queue ─▶ run: one call, an outcome each
//! ```
//!
//! Each job was claimed for a slot of its own and keeps it, so a batch is never larger than what the node may run; and each is
//! fenced and recorded as if it had run alone.

mod gather;
mod run;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

pub(super) use self::gather::{Gathering, Member, gather, size};
pub(super) use self::run::run;
use super::registry::{Attempt, Ended, Handler};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::job::{IntoJob, Job, JobError, JobId, JobMessage, Outcome};
use crate::store::{Postgres, Store};

/// More than this are never claimed at once.
const SIZE_MAX: usize = 1000;
const WAIT_MAX: Duration = Duration::from_secs(60);

/// How large a batch is, and how long it waits to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    pub(super) size: usize,
    pub(super) wait: Duration,
}

impl BatchOptions {
    /// Batches of up to `size` jobs, 1 to 1,000; never more than the concurrency of their queue (or kind), because each job
    /// occupies a slot. The first one waits at most 50 ms for the others.
    pub fn new(size: usize) -> Self {
        Self { size, wait: Duration::from_millis(50) }
    }

    /// Sets how long the first job waits for others, at most 60 s. It occupies its slot meanwhile.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    pub(super) fn validate(self, kind: &str) -> Result<()> {
        if self.size == 0 || self.size > SIZE_MAX {
            return Err(Error::config(format!(
                "the batches of kind {kind:?} have {} jobs; use 1 to {SIZE_MAX}",
                self.size
            )));
        }
        if self.wait > WAIT_MAX {
            return Err(Error::config(format!(
                "the batches of kind {kind:?} wait {:?} for more jobs; use at most {WAIT_MAX:?}",
                self.wait
            )));
        }
        Ok(())
    }
}

/// What a batch handler works with: jobs of one kind and queue, and a unit of work for all of them.
///
/// A handler that asks for the transaction, or sends, commits with all of its jobs together or not at all: if each ended with
/// [`Outcome::Done`], what it wrote, what it sent and the removal of its jobs are one commit. If one did not, that one fails (or
/// is snoozed …) and the transaction is rolled back; the others are given back at no attempt and run again without it. A handler
/// that uses neither has each outcome recorded by itself.
pub struct Batch<'a, S: Store = Postgres> {
    jobs: &'a [Job],
    context: &'a mut Context<S>,
    cancelled: &'a CancellationToken,
}

impl<'a, S: Store> Batch<'a, S> {
    /// The jobs: at least one, in the order they were claimed.
    pub fn jobs(&self) -> &'a [Job] {
        self.jobs
    }

    /// The transaction that commits with these jobs, if all are done; the first call opens it.
    ///
    /// # Errors
    /// When no connection can be had within the deadline.
    pub async fn transaction(&mut self) -> Result<&mut S::Transaction> {
        self.context.transaction().await
    }

    /// Collects a message on behalf of one of the jobs (its trace goes on there), sent if all are done.
    ///
    /// # Errors
    /// When the message is refused; the context stays usable.
    pub fn send(&mut self, sender: &Job, job: impl IntoJob<S>) -> Result<JobId> {
        self.context.send_from(job.into_job(), sender)
    }

    /// What would be flushed now.
    pub fn pending(&self) -> &[JobMessage] {
        self.context.pending()
    }

    /// Whether the node wants this handler to stop; see [`JobContext::is_cancelled`](crate::JobContext::is_cancelled).
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    /// All of them are done.
    pub fn all_done(&self) -> BatchOutcomes {
        self.jobs.iter().map(|job| (job.id, Ok(Outcome::Done))).collect()
    }
}

impl<S: Store> fmt::Debug for Batch<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("jobs", &self.jobs.len()).finish_non_exhaustive()
    }
}

/// How each job of a batch ended. One that is left out has failed.
///
/// ```
/// # use jobwright::{Batch, BatchOutcomes, JobError, Outcome, store::Store};
/// # fn f<S: Store>(batch: &Batch<'_, S>) -> BatchOutcomes {
/// batch.jobs().iter().map(|job| (job.id, match job.payload.decode::<i64>() {
///     Ok(_) => Ok(Outcome::Done),
///     Err(error) => Err(JobError::fatal(error.to_string())),
/// })).collect()
/// # }
/// ```
#[derive(Debug, Default)]
pub struct BatchOutcomes(HashMap<JobId, Ended>);

impl BatchOutcomes {
    /// Sets how a job ended; the last word counts. Ids of jobs that are not in the batch mean nothing.
    pub fn set(&mut self, id: JobId, ended: Result<Outcome, JobError>) {
        self.0.insert(id, ended);
    }

    fn take(&mut self, id: JobId) -> Ended {
        self.0
            .remove(&id)
            .unwrap_or_else(|| Err(JobError::new("the batch handler returned no outcome for this job of its batch")))
    }
}

impl FromIterator<(JobId, Result<Outcome, JobError>)> for BatchOutcomes {
    fn from_iter<I: IntoIterator<Item = (JobId, Result<Outcome, JobError>)>>(outcomes: I) -> Self {
        Self(outcomes.into_iter().collect())
    }
}

impl Extend<(JobId, Result<Outcome, JobError>)> for BatchOutcomes {
    fn extend<I: IntoIterator<Item = (JobId, Result<Outcome, JobError>)>>(&mut self, outcomes: I) {
        self.0.extend(outcomes);
    }
}

/// What a call ends with: an outcome each, or one failure of all.
pub(super) type BatchEnded = Result<BatchOutcomes, JobError>;

/// Runs batches, whatever the closure's own type is.
pub(super) trait BatchHandler<S: Store>: Send + Sync {
    fn call<'b>(&'b self, batch: &'b mut Batch<'_, S>) -> BoxFuture<'b, BatchEnded>;
}

impl<S, F> BatchHandler<S> for F
where
    S: Store,
    F: for<'b> Fn(&'b mut Batch<'_, S>) -> BoxFuture<'b, BatchEnded> + Send + Sync,
{
    fn call<'b>(&'b self, batch: &'b mut Batch<'_, S>) -> BoxFuture<'b, BatchEnded> {
        self(batch)
    }
}

/// How a kind is run in batches.
pub(super) struct BatchPlan<S: Store> {
    pub(super) options: BatchOptions,
    pub(super) handler: Arc<dyn BatchHandler<S>>,
}

/// A batch of one, for who runs a single job.
pub(super) struct Single<S: Store>(pub(super) Arc<dyn BatchHandler<S>>);

impl<S: Store> Handler<S> for Single<S> {
    fn run<'a>(&'a self, attempt: Attempt<'a, S>) -> BoxFuture<'a, Ended> {
        let Attempt { job, context, cancelled, .. } = attempt;
        Box::pin(async move {
            let mut batch = Batch { jobs: std::slice::from_ref(job), context, cancelled: cancelled.node() };
            self.0.call(&mut batch).await?.take(job.id)
        })
    }
}
