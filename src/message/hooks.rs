use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::error::{BoxError, Error, Result};
use crate::job::{Job, NewJob};

type Hook = dyn Fn(NewJob, Option<&Job>) -> Result<NewJob, BoxError> + Send + Sync;

/// Waits for something after each commit of a context that sent jobs: the test kit runs them there.
pub(crate) trait AfterCommit: Send + Sync {
    fn committed(&self) -> BoxFuture<'_, ()>;
}

/// What sees each job before it is collected, and each commit. `None` where there is nothing, which costs nothing.
#[derive(Clone, Default)]
pub(crate) struct Hooks(Option<Arc<All>>);

#[derive(Clone, Default)]
struct All {
    on_send: Vec<Arc<Hook>>,
    after_commit: Option<Arc<dyn AfterCommit>>,
}

impl Hooks {
    fn all(&mut self) -> &mut All {
        Arc::make_mut(self.0.get_or_insert_default())
    }

    pub(super) fn on_send(&mut self, hook: Arc<Hook>) {
        self.all().on_send.push(hook);
    }

    pub(super) fn after_commit(&mut self, hook: Arc<dyn AfterCommit>) {
        self.all().after_commit = Some(hook);
    }

    /// `sender`: the job whose handler sends.
    pub(crate) fn apply(&self, mut job: NewJob, sender: Option<&Job>) -> Result<NewJob> {
        if let Some(sender) = sender
            && !sender.headers.is_empty()
        {
            job = sender.carry_trace(job);
        }
        let Some(all) = &self.0 else { return Ok(job) };
        for hook in &all.on_send {
            let kind = job.kind.clone();
            job = hook(job, sender).map_err(|why| {
                Error::invalid(format!("a send hook refused the job of kind {kind:?}: {why}")).with_source(why)
            })?;
        }
        Ok(job)
    }

    /// To be called after a commit that others may have heard of.
    pub(crate) async fn committed(&self) {
        if let Some(after_commit) = self.0.as_ref().and_then(|all| all.after_commit.as_ref()) {
            after_commit.committed().await;
        }
    }
}
