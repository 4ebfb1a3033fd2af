//! A program's own judgement of errors.

use std::fmt;
use std::sync::Arc;

use crate::job::{Job, JobError, RetryAdvice};

/// Decides what an error means for its job. It gets every failure of a handler, also a panic or a timeout, with the advice that came with
/// the error ([`JobError::advice`]). What it returns counts.
#[derive(Clone)]
pub struct Classifier(pub(crate) Arc<Classify>);

pub(crate) type Classify = dyn Fn(&JobError, &Job) -> RetryAdvice + Send + Sync;

impl Classifier {
    /// Creates a classifier from a closure. It runs on the worker's task, so it should not block.
    pub fn new(classify: impl Fn(&JobError, &Job) -> RetryAdvice + Send + Sync + 'static) -> Self {
        Self(Arc::new(classify))
    }
}

/// Equal only to itself: what a closure does can't be compared.
impl PartialEq for Classifier {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Classifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Classifier(…)")
    }
}
