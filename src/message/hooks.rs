use std::error::Error as StdError;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::job::{Job, NewJob};

/// Any error: what a send hook may refuse a job with. `"no tenant".into()` makes one of a text.
pub type BoxError = Box<dyn StdError + Send + Sync>;

type Hook = dyn Fn(NewJob, Option<&Job>) -> Result<NewJob, BoxError> + Send + Sync;

/// What sees each job before it is collected. `None` where there is nothing, which costs nothing.
#[derive(Clone, Default)]
pub(crate) struct Hooks(Option<Arc<Vec<Arc<Hook>>>>);

impl Hooks {
    pub(super) fn push(&mut self, hook: Arc<Hook>) {
        let hooks = self.0.get_or_insert_default();
        Arc::make_mut(hooks).push(hook);
    }

    /// `sender`: the job whose handler sends.
    pub(crate) fn apply(&self, mut job: NewJob, sender: Option<&Job>) -> Result<NewJob> {
        if let Some(sender) = sender
            && !sender.headers.is_empty()
        {
            job = sender.carry_trace(job);
        }
        let Some(hooks) = &self.0 else { return Ok(job) };
        for hook in hooks.iter() {
            let kind = job.kind.clone();
            job = hook(job, sender).map_err(|why| {
                Error::invalid(format!("a send hook refused the job of kind {kind:?}: {why}")).with_source(why)
            })?;
        }
        Ok(job)
    }
}
