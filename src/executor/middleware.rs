//! What runs around handlers.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::registry::Ended;
use crate::job::{Job, JobError, Outcome};

/// Something that happens around every attempt of every job of an executor: a log, a metric, a check, a change of what an attempt
/// ends with. See [`ExecutorBuilder::middleware`](crate::ExecutorBuilder::middleware).
///
/// ```
/// use jobwright::{Job, JobError, Middleware, Next, Outcome};
///
/// struct OnlyTenants;
///
/// impl Middleware for OnlyTenants {
///     async fn around(&self, job: &Job, next: Next<'_>) -> Result<Outcome, JobError> {
///         let Some(tenant) = &job.terms.tenant else {
///             return Err(JobError::fatal("the job has no tenant"));     // the handler is not called
///         };
///         let ended = next.run().await;                                 // those that come after this one, then the handler
///         tracing::info!(tenant, ok = ended.is_ok(), "done with it");
///         ended
///     }
/// }
/// ```
///
/// It sees the job and how it ended (a panic of the handler is an error here), and has no way into the handler's transaction: what a
/// handler wrote and sent commits if the handler *and* all around it say [`Outcome::Done`]. Its time counts for the kind's
/// timeout; at the timeout, and when the node has to stop, its future is dropped at its `.await` with that of the handler.
pub trait Middleware: Send + Sync + 'static {
    /// Runs an attempt, by way of `next`, or does not.
    ///
    /// # Errors
    /// Whatever the attempt is to fail with.
    fn around(&self, job: &Job, next: Next<'_>) -> impl Future<Output = Result<Outcome, JobError>> + Send;
}

/// What comes after a [`Middleware`]: the next one, and at the end the handler.
#[must_use = "the handler is not called before `run`"]
pub struct Next<'a> {
    job: &'a Job,
    rest: &'a [Arc<dyn Layer>],
    handler: BoxFuture<'a, Ended>,
}

impl Next<'_> {
    /// Runs it.
    ///
    /// # Errors
    /// What the handler, or a middleware in between, failed with.
    pub async fn run(self) -> Result<Outcome, JobError> {
        around(self.rest, self.job, self.handler).await
    }
}

/// A [`Middleware`], whatever its type.
pub(super) trait Layer: Send + Sync {
    fn call<'a>(&'a self, job: &'a Job, next: Next<'a>) -> BoxFuture<'a, Ended>;
}

impl<M: Middleware> Layer for M {
    fn call<'a>(&'a self, job: &'a Job, next: Next<'a>) -> BoxFuture<'a, Ended> {
        Box::pin(self.around(job, next))
    }
}

/// A handler with everything around it.
pub(super) fn around<'a>(
    layers: &'a [Arc<dyn Layer>],
    job: &'a Job,
    handler: BoxFuture<'a, Ended>,
) -> BoxFuture<'a, Ended> {
    match layers.split_first() {
        Some((layer, rest)) => layer.call(job, Next { job, rest, handler }),
        None => handler,
    }
}
