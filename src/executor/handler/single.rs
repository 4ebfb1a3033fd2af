//! A single job for a handler of batches.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::executor::handler::batch::{Batch, BatchHandler};
use crate::executor::handler::registry::{Attempt, Handler};
use crate::job::HandlerResult;
use crate::store::Store;

/// Runs a single job as a batch of one.
pub(crate) struct Single<S: Store>(pub(crate) Arc<dyn BatchHandler<S>>);

impl<S: Store> Handler<S> for Single<S> {
    fn run<'a>(&'a self, attempt: Attempt<'a, S>) -> BoxFuture<'a, HandlerResult> {
        let Attempt { job, context, cancelled, .. } = attempt;
        Box::pin(async move {
            let mut batch = Batch { jobs: std::slice::from_ref(job), context, cancelled: cancelled.node() };
            self.0.call(&mut batch).await?.take(job.id)
        })
    }
}
