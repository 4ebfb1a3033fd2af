use std::sync::Arc;

use async_trait::async_trait;

use super::MessageService;
use crate::error::{BoxError, Error, Result};
use crate::job::{Job, JobId, NewJob};
use crate::store::Store;

pub(super) type SendHook = dyn Fn(NewJob, Option<&Job>) -> Result<NewJob, BoxError> + Send + Sync;

/// Lets hooks see, change and refuse each job before it is collected. It is the outermost service, and exists only if there are hooks.
pub(super) struct SendHooks<S: Store> {
    inner: Box<dyn MessageService<S>>,
    hooks: Arc<Vec<Arc<SendHook>>>,
}

impl<S: Store> SendHooks<S> {
    pub(super) fn around(inner: Box<dyn MessageService<S>>, hooks: Arc<Vec<Arc<SendHook>>>) -> Self {
        Self { inner, hooks }
    }
}

#[async_trait]
impl<S: Store> MessageService<S> for SendHooks<S> {
    fn inner(&self) -> Option<&dyn MessageService<S>> {
        Some(&*self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn MessageService<S>> {
        Some(&mut *self.inner)
    }

    fn send(&mut self, job: NewJob, sender: Option<&Job>) -> Result<JobId> {
        self.inner.send(apply(&self.hooks, job, sender)?, sender)
    }
}

/// Applies the hooks to a job. `sender` is the job whose handler sends it.
pub(super) fn apply(hooks: &[Arc<SendHook>], mut job: NewJob, sender: Option<&Job>) -> Result<NewJob> {
    for hook in hooks {
        let kind = job.kind.clone();
        job = hook(job, sender).map_err(|why| {
            Error::invalid(format!("a send hook refused the job of kind {kind:?}: {why}")).with_source(why)
        })?;
    }
    Ok(job)
}
