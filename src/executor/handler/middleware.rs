//! Middleware that runs around handlers.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::job::{HandlerResult, Job, JobError, Outcome};

/// Code that runs around every attempt of every job of an executor: a log, a metric, a check, or a change of the attempt's result. See
/// [`ExecutorBuilder::middleware`](crate::ExecutorBuilder::middleware).
///
/// ```
/// use jobwright::{Job, JobError, Middleware, Next, Outcome};
///
/// struct OnlyTenants;
///
/// impl Middleware for OnlyTenants {
///     async fn around(&self, job: &Job, next: Next<'_>) -> Result<Outcome, JobError> {
///         let Some(tenant) = &job.options.tenant else {
///             return Err(JobError::fatal("the job has no tenant"));     // the handler is not called
///         };
///         let ended = next.run().await;                                 // those that come after this one, then the handler
///         tracing::info!(tenant, ok = ended.is_ok(), "done with it");
///         ended
///     }
/// }
/// ```
///
/// It sees the job and how it ended (a panic of the handler is an error here), but has no access to the handler's transaction. What a
/// handler wrote and sent commits if the handler *and* all middleware return [`Outcome::Done`]. The middleware's time counts for the kind's
/// timeout. At the timeout, and when the node has to stop, its future is dropped at its `.await` together with that of the handler.
pub trait Middleware: Send + Sync + 'static {
    /// Runs an attempt by calling `next`, or does not run it.
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn around(&self, job: &Job, next: Next<'_>) -> impl Future<Output = Result<Outcome, JobError>> + Send;
}

/// The rest of the chain after a [`Middleware`]: the next one, and at the end the handler.
#[must_use = "the handler is not called before `run`"]
pub struct Next<'a> {
    job: &'a Job,
    rest: &'a [Arc<dyn Layer>],
    handler: BoxFuture<'a, HandlerResult>,
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("job", &self.job.id).field("layers", &self.rest.len()).finish_non_exhaustive()
    }
}

impl Next<'_> {
    /// Runs the rest of the chain.
    ///
    /// # Errors
    /// The error of the handler, or of a middleware in between.
    pub async fn run(self) -> Result<Outcome, JobError> {
        around(self.rest, self.job, self.handler).await
    }
}

/// A [`Middleware`], whatever its type.
pub(crate) trait Layer: Send + Sync {
    fn call<'a>(&'a self, job: &'a Job, next: Next<'a>) -> BoxFuture<'a, HandlerResult>;
}

impl<M: Middleware> Layer for M {
    fn call<'a>(&'a self, job: &'a Job, next: Next<'a>) -> BoxFuture<'a, HandlerResult> {
        Box::pin(self.around(job, next))
    }
}

/// Combines a handler with the middleware around it.
pub(crate) fn around<'a>(
    layers: &'a [Arc<dyn Layer>],
    job: &'a Job,
    handler: BoxFuture<'a, HandlerResult>,
) -> BoxFuture<'a, HandlerResult> {
    match layers.split_first() {
        Some((layer, rest)) => layer.call(job, Next { job, rest, handler }),
        None => handler,
    }
}
