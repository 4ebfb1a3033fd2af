use std::fmt;

use crate::context::Context;
use crate::error::Result;
use crate::executor::node::cancellations::CancelSignal;
use crate::job::{IntoJob, Job, JobId, JobMessage, NodeId, Payload, TraceContext};
use crate::message::MessageServices;
use crate::store::{Postgres, Store};

/// What a handler works with: its job, the application's state, and its own unit of work.
///
/// When the handler returns [`Outcome::Done`](crate::Outcome::Done), what it wrote through [`transaction`](Self::transaction),
/// the messages it sent and the removal of its job commit together. With every other outcome, and when it fails, all of it is
/// rolled back.
pub struct JobContext<'a, A = (), S: Store = Postgres> {
    pub(crate) job: &'a Job,
    pub(crate) state: &'a A,
    pub(crate) context: &'a mut Context<S>,
    pub(crate) engine: Engine<'a, S>,
    pub(crate) cancelled: CancelSignal<'a>,
}

impl<'a, A, S: Store> JobContext<'a, A, S> {
    /// Returns the job that is being run.
    pub fn job(&self) -> &'a Job {
        self.job
    }

    /// Returns the trace this attempt belongs to, to be passed on to called services: see [`Job::trace`]. Jobs sent from here join it
    /// automatically.
    pub fn trace(&self) -> Option<TraceContext> {
        self.job.trace()
    }

    /// Returns what the application gave to its handlers.
    pub fn state(&self) -> &'a A {
        self.state
    }

    /// Returns the transaction that commits with this job. The first call opens it.
    ///
    /// # Errors
    /// When no connection becomes available within the deadline.
    pub async fn transaction(&mut self) -> Result<&mut S::Transaction> {
        self.context.transaction().await
    }

    /// Collects a message that is sent if, and only if, this job succeeds.
    ///
    /// # Errors
    /// When the message is refused; the context stays usable.
    pub fn send(&mut self, job: impl IntoJob<S>) -> Result<JobId> {
        self.context.send_from(job.into_job(), self.job)
    }

    /// Sends a result to the caller that asked for one ([`NewJob::reply_to`](crate::NewJob::reply_to)), if, and only if, this job succeeds.
    /// `None`: none was asked for. The result is kept in the database until the broker has confirmed it.
    ///
    /// # Errors
    /// When the result is refused (too large); the context stays usable.
    pub fn reply(&mut self, result: Payload) -> Result<Option<JobId>> {
        self.job.reply(result).map(|reply| self.context.send_from(reply, self.job)).transpose()
    }

    /// Returns the messages collected so far, which are sent at the commit.
    pub fn pending(&self) -> &[JobMessage] {
        self.context.pending()
    }

    /// Returns whether this handler is to stop. It is when its job was cancelled or taken away, when its node shuts down and the grace
    /// period is over, or when its node lost its lease. An async handler is dropped at its next `.await`, at once or after
    /// [`cancel_grace`](crate::ExecutorConfig::cancel_grace). A long computation may ask here. This does not query the database.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.look().is_some()
    }

    /// Waits until this handler is to stop because its job was cancelled or taken away. The handler may then undo, within
    /// [`cancel_grace`](crate::ExecutorConfig::cancel_grace), what it did outside its transaction. Whatever it returns then is not
    /// committed. The future borrows nothing of the context.
    ///
    /// ```
    /// # use jobwright::{JobContext, JobError, Outcome};
    /// # async fn convert() -> Result<(), JobError> { Ok(()) }
    /// # async fn remove_half_done() {}
    /// async fn handle(cx: &mut JobContext<'_>) -> Result<Outcome, JobError> {
    ///     tokio::select! {
    ///         done = convert() => done?,
    ///         () = cx.cancelled() => remove_half_done().await,
    ///     }
    ///     Ok(Outcome::Done)
    /// }
    /// ```
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + use<'a, A, S> {
        let stop = self.cancelled;
        async move {
            stop.cancelled().await;
        }
    }
}

impl<A, S: Store> fmt::Debug for JobContext<'_, A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobContext").field("job", &self.job.id).field("kind", &self.job.kind).finish_non_exhaustive()
    }
}

/// The engine behind a running handler. It has only two words, because it is part of the future of each running job.
pub(crate) struct Engine<'a, S: Store> {
    pub(crate) messages: &'a MessageServices<S>,
    pub(crate) node: NodeId,
}
