//! Handlers that take many jobs with one call.
//!
//! ```text
//!  Dispatcher ─▶ start ─▶ gather: waits for others of its kind and queue ─▶ run: one call, an outcome each
//! ```
//!
//! Each job was claimed for its own slot and keeps it, so a batch is never larger than what the node may run. Each job is fenced and
//! recorded as if it had run alone.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::job::{HandlerResult, IntoJob, Job, JobError, JobId, JobMessage, Outcome};
use crate::store::{Postgres, Store};

/// The largest size of a batch.
const SIZE_MAX: usize = 1000;
const WAIT_MAX: Duration = Duration::from_secs(60);

/// How large a batch is, and how long it waits for more jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    pub(crate) size: usize,
    pub(crate) wait: Duration,
}

impl BatchOptions {
    /// Creates options for batches of up to `size` jobs, 1 to 1,000. A batch never exceeds the concurrency of its queue (or kind), because
    /// each job occupies a slot. The first job waits at most 50 ms for the others.
    pub fn new(size: usize) -> Self {
        Self { size, wait: Duration::from_millis(50) }
    }

    /// Sets how long the first job waits for others, at most 60 s. It occupies its slot meanwhile.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    pub(crate) fn validate(self, kind: &str) -> Result<()> {
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
/// A handler that asks for the transaction, or sends, commits with all of its jobs together or not at all. If each job ended with
/// [`Outcome::Done`], what the handler wrote, what it sent and the removal of its jobs are one commit. If one did not, that job fails (or
/// is snoozed …) and the transaction is rolled back. The others are given back without costing an attempt, and run again without it. If a
/// handler uses neither, each outcome is recorded separately.
pub struct Batch<'a, S: Store = Postgres> {
    pub(crate) jobs: &'a [Job],
    pub(crate) context: &'a mut Context<S>,
    pub(crate) cancelled: &'a CancellationToken,
}

impl<'a, S: Store> Batch<'a, S> {
    /// Returns the jobs: at least one, in the order in which they were claimed.
    pub fn jobs(&self) -> &'a [Job] {
        self.jobs
    }

    /// Returns the transaction that commits with these jobs if all are done. The first call opens it.
    ///
    /// # Errors
    /// When no connection becomes available within the deadline.
    pub async fn transaction(&mut self) -> Result<&mut S::Transaction> {
        self.context.transaction().await
    }

    /// Collects a message on behalf of one of the jobs (whose trace continues there). It is sent if all are done.
    ///
    /// # Errors
    /// When the message is refused; the context stays usable.
    pub fn send(&mut self, sender: &Job, job: impl IntoJob<S>) -> Result<JobId> {
        self.context.send_from(job.into_job(), sender)
    }

    /// Returns the messages collected so far, which are sent at the commit.
    pub fn pending(&self) -> &[JobMessage] {
        self.context.pending()
    }

    /// Returns whether the node wants this handler to stop; see [`JobContext::is_cancelled`](crate::JobContext::is_cancelled).
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    /// Returns outcomes that say that all jobs are done.
    pub fn all_done(&self) -> BatchOutcomes {
        self.jobs.iter().map(|job| (job.id, Ok(Outcome::Done))).collect()
    }
}

impl<S: Store> fmt::Debug for Batch<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("jobs", &self.jobs.len()).finish_non_exhaustive()
    }
}

/// How each job of a batch ended. A job that is left out has failed.
///
/// ```
/// # use jobwright::{Batch, BatchOutcomes, JobError, Outcome, Store};
/// # fn f<S: Store>(batch: &Batch<'_, S>) -> BatchOutcomes {
/// batch.jobs().iter().map(|job| (job.id, match job.payload.decode::<i64>() {
///     Ok(_) => Ok(Outcome::Done),
///     Err(error) => Err(JobError::fatal(error.to_string())),
/// })).collect()
/// # }
/// ```
#[derive(Debug, Default)]
pub struct BatchOutcomes(HashMap<JobId, HandlerResult>);

impl BatchOutcomes {
    /// Sets how a job ended. The last call counts. Ids of jobs that are not in the batch are ignored.
    pub fn set(&mut self, id: JobId, ended: Result<Outcome, JobError>) {
        self.0.insert(id, ended);
    }

    pub(crate) fn take(&mut self, id: JobId) -> HandlerResult {
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

/// The result of a call: an outcome for each job, or one failure of all.
pub(crate) type BatchResult = Result<BatchOutcomes, JobError>;

/// Runs batches, independent of the closure's own type.
pub(crate) trait BatchHandler<S: Store>: Send + Sync {
    fn call<'b>(&'b self, batch: &'b mut Batch<'_, S>) -> BoxFuture<'b, BatchResult>;
}

impl<S, F> BatchHandler<S> for F
where
    S: Store,
    F: for<'b> Fn(&'b mut Batch<'_, S>) -> BoxFuture<'b, BatchResult> + Send + Sync,
{
    fn call<'b>(&'b self, batch: &'b mut Batch<'_, S>) -> BoxFuture<'b, BatchResult> {
        self(batch)
    }
}

/// How a kind is run in batches.
pub(crate) struct BatchPlan<S: Store> {
    pub(crate) options: BatchOptions,
    pub(crate) handler: Arc<dyn BatchHandler<S>>,
}
