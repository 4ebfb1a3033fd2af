use std::time::Duration;

use crate::executor::kinds::classifier::Classifier;
use crate::job::{DEFAULT_MAX_ATTEMPTS, DEFAULT_QUEUE, Job, JobError, NewJob, RetryAdvice, RetryPolicy};

/// How long a handler may run unless its kind says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// Defaults of a kind of job. Queue, priority and attempts apply when a job is sent, the rest when it runs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KindOptions {
    /// The queue it waits in. Default `default`.
    #[doc(hidden)]
    pub queue: String,
    /// The priority of its jobs: higher first. Default 0.
    #[doc(hidden)]
    pub priority: i16,
    /// The number of attempts before a job is dead-lettered. Default 10.
    #[doc(hidden)]
    pub max_attempts: u32,
    /// How long one attempt may take; `None` = without limit. Default 10 minutes.
    #[doc(hidden)]
    pub timeout: Option<Duration>,
    /// The delay between attempts. `None` = that of the queue, or else [`RetryPolicy::default`].
    #[doc(hidden)]
    pub retry: Option<RetryPolicy>,
    /// Decides what its errors mean; `None` = as the executor decides.
    #[doc(hidden)]
    pub classify: Option<Classifier>,
    /// How many jobs of this kind one node runs at the same time, within the limit of the queue. `None` = as many as the queue allows.
    #[doc(hidden)]
    pub concurrency: Option<usize>,
}

impl Default for KindOptions {
    fn default() -> Self {
        Self {
            queue: DEFAULT_QUEUE.to_owned(),
            priority: 0,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            timeout: Some(DEFAULT_TIMEOUT),
            retry: None,
            classify: None,
            concurrency: None,
        }
    }
}

impl KindOptions {
    pub(crate) fn apply(self, job: NewJob) -> NewJob {
        job.queue(self.queue).priority(self.priority).max_attempts(self.max_attempts)
    }

    /// Sets the queue it waits in.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = queue.into();
        self
    }

    /// Sets the priority of its jobs.
    #[must_use]
    pub fn priority(mut self, priority: i16) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the number of attempts before a job is dead-lettered.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// Sets how long one attempt may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Lets an attempt take any time.
    #[must_use]
    pub fn no_timeout(mut self) -> Self {
        self.timeout = None;
        self
    }

    /// Sets the delay between attempts.
    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Sets what the errors of this kind mean, instead of the executor's classifier
    /// ([`ExecutorBuilder::classify`](crate::ExecutorBuilder::classify)).
    #[must_use]
    pub fn classify(self, classify: impl Fn(&JobError, &Job) -> RetryAdvice + Send + Sync + 'static) -> Self {
        self.classifier(Classifier::new(classify))
    }

    /// Does the same with a classifier that several kinds share.
    #[must_use]
    pub fn classifier(mut self, classifier: Classifier) -> Self {
        self.classify = Some(classifier);
        self
    }

    /// Sets how many jobs one node runs at the same time. At least 1.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = Some(concurrency);
        self
    }
}
