use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::executor::{Classifier, JobContext};
use crate::job::{
    DEFAULT_MAX_ATTEMPTS, DEFAULT_QUEUE, IntoJob, Job, JobError, NewJob, Outcome, RetryAdvice, RetryPolicy,
};
use crate::store::{Postgres, Store};

/// How long a handler may run unless its kind says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// A payload with the code to execute it, like jBPM's command message.
///
/// ```
/// use jobwright::{Command, JobContext, JobError, Outcome};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct SendInvoice { order: i64 }
///
/// impl Command for SendInvoice {
///     const KIND: &'static str = "send-invoice";
///     type State = ();
///
///     async fn execute(self, cx: &mut JobContext<'_>) -> Result<Outcome, JobError> {
///         cx.transaction().await?
///             .execute("update orders set invoiced = true where id = $1", &[&self.order]).await?;
///         Ok(Outcome::Done)
///     }
/// }
/// ```
///
/// `S` is the store whose transaction the command uses. A command that uses none can be implemented for all: `impl<S: Store> Command<S> for
/// …`.
///
/// Handlers run at least once and commit once: what a handler does outside its transaction can happen again.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a command for the store `{S}`",
    label = "needs `impl Command<{S}> for {Self}`",
    note = "`impl Command for {Self}` is for PostgreSQL",
    note = "a command that uses no transaction can be one for every store: `impl<S: Store> Command<S> for {Self}`"
)]
pub trait Command<S: Store = Postgres>: Serialize + DeserializeOwned + Send + 'static {
    /// Names the command in the database and on the wire. It must never change; see [`ALIASES`](Self::ALIASES).
    const KIND: &'static str;

    /// Former names: jobs that were sent under them still find it.
    const ALIASES: &'static [&'static str] = &[];

    /// The type of the state that the application gives to its handlers; `()` for none.
    type State: Send + Sync + 'static;

    /// Returns the defaults of this kind.
    fn options() -> KindOptions {
        KindOptions::default()
    }

    /// Does the work.
    ///
    /// # Errors
    /// Any failure. A [`JobError`] says whether to try again; other errors convert into one that is tried again.
    fn execute(self, cx: &mut JobContext<'_, Self::State, S>)
    -> impl Future<Output = Result<Outcome, JobError>> + Send;

    /// Returns the job message for this command, with the defaults of its kind. It may be changed before it is sent.
    fn job(self) -> NewJob {
        Self::options().apply(NewJob::json(Self::KIND, &self))
    }
}

impl<S: Store, C: Command<S>> IntoJob<S> for C {
    fn into_job(self) -> NewJob {
        self.job()
    }
}

/// Defaults of a kind of job. Queue, priority and attempts apply when a job is sent, the rest when it runs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KindOptions {
    /// The queue it waits in. Default `default`.
    pub queue: String,
    /// The priority of its jobs: higher first. Default 0.
    pub priority: i16,
    /// The number of attempts before a job is dead-lettered. Default 10.
    pub max_attempts: u32,
    /// How long one attempt may take; `None` = without limit. Default 10 minutes.
    pub timeout: Option<Duration>,
    /// The delay between attempts. `None` = that of the queue, or else [`RetryPolicy::default`].
    pub retry: Option<RetryPolicy>,
    /// Decides what its errors mean; `None` = as the executor decides.
    pub classify: Option<Classifier>,
    /// How many jobs of this kind one node runs at the same time, within the limit of the queue. `None` = as many as the queue allows.
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
    fn apply(self, job: NewJob) -> NewJob {
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
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets the delay between attempts.
    #[must_use]
    pub fn retry(mut self, retry: impl Into<Option<RetryPolicy>>) -> Self {
        self.retry = retry.into();
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
    pub fn concurrency(mut self, concurrency: impl Into<Option<usize>>) -> Self {
        self.concurrency = concurrency.into();
        self
    }
}
