use std::fmt;
use std::sync::Arc;

use tokio::sync::Mutex;

use super::{JobRun, Runner, Summary};
use crate::error::{Error, Result};
use crate::executor::{CommandExecutor, ExecutorBuilder};
use crate::message::{CommitReceipt, MessageService, MessageServices, Written};
use crate::store::Store;

tokio::task_local! {
    /// Set in a task that runs jobs.
    static INSIDE: ();
}

/// Jobs that run at once: every commit through [`messages`](Self::messages) returns after the jobs it sent, and the jobs that these sent,
/// have run. It is for tests of code that sends jobs and then needs their effects.
///
/// Jobs run as usual, after the commit and by their own claims; a failing handler fails its job, not the commit. The summary of
/// [`finish`](Self::finish) says what happened. Jobs that are due later do not run. Jobs sent through an
/// [enlisted](MessageServices::enlist) transaction run when [`CommitReceipt::settled`] is awaited, otherwise with the next commit or at the
/// end. A handler that waits for another *task* which commits through the same services waits until its timeout, because both use the
/// test's one runner.
#[must_use = "failures are told by `finish`"]
pub struct Inline<S: Store> {
    messages: MessageServices<S>,
    driver: Arc<Driver<S>>,
}

impl<S: Store> fmt::Debug for Inline<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inline").field("messages", &self.messages).finish_non_exhaustive()
    }
}

struct Driver<S: Store>(Mutex<State<S>>);

struct State<S: Store> {
    runner: Runner<S>,
    ran: Vec<JobRun>,
    error: Option<Error>,
}

impl<S: Store> Inline<S> {
    /// Creates it for handlers that `setup` adds.
    ///
    /// # Errors
    /// As [`Runner::new`].
    pub async fn new(
        messages: &MessageServices<S>,
        setup: impl FnOnce(ExecutorBuilder<S>) -> ExecutorBuilder<S>,
    ) -> Result<Self> {
        let runner = Runner::new(setup(CommandExecutor::builder(messages.clone()))).await?;
        let driver = Arc::new(Driver(Mutex::new(State { runner, ran: Vec::new(), error: None })));
        let runs = driver.clone();
        let messages = messages.clone().watch(move |inner| Running { inner, driver: runs.clone() });
        Ok(Self { messages, driver })
    }

    /// Returns the message services for the code under test.
    pub fn messages(&self) -> &MessageServices<S> {
        &self.messages
    }

    /// Runs the remaining jobs, and returns a summary of all that ran.
    ///
    /// # Errors
    /// As [`Runner::drain`], also if a drain after a commit failed.
    pub async fn finish(self) -> Result<Summary> {
        let mut state = self.driver.0.lock().await;
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        let last = INSIDE.scope((), state.runner.drain()).await?;
        let mut ran = std::mem::take(&mut state.ran);
        ran.extend(last.ran);
        Ok(Summary { ran, ..last })
    }
}

/// Makes each commit that sends something wait for its jobs.
struct Running<S: Store> {
    inner: Box<dyn MessageService<S>>,
    driver: Arc<Driver<S>>,
}

impl<S: Store> MessageService<S> for Running<S> {
    fn inner(&self) -> Option<&dyn MessageService<S>> {
        Some(&*self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn MessageService<S>> {
        Some(&mut *self.inner)
    }

    fn committed(&mut self, written: Written) -> CommitReceipt {
        let driver = self.driver.clone();
        self.inner.committed(written).then(async move { driver.run().await })
    }
}

impl<S: Store> Driver<S> {
    async fn run(&self) {
        // For a commit inside a handler, the caller of the handler runs the jobs it sent.
        if INSIDE.try_with(|()| ()).is_ok() {
            return;
        }
        let mut state = self.0.lock().await;
        match INSIDE.scope((), state.runner.drain()).await {
            Ok(summary) => state.ran.extend(summary.ran),
            Err(error) => {
                tracing::error!(%error, "the jobs of a commit did not all run");
                state.error.get_or_insert(error);
            }
        }
    }
}
