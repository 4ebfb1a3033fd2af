use std::fmt;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use crate::job::JobId;

/// Committed messages on their way. Dropping it changes nothing; [`settled`](Self::settled) waits until it is known where each of them
/// went.
#[derive(Default)]
pub struct CommitReceipt {
    known: RouteCounts,
    published: Option<oneshot::Receiver<RouteCounts>>,
    duplicates: Vec<(JobId, JobId)>,
    already_sent: Vec<JobId>,
    /// Futures that the commit of a context waits for.
    then: Vec<BoxFuture<'static, ()>>,
}

impl fmt::Debug for CommitReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitReceipt")
            .field("known", &self.known)
            .field("duplicates", &self.duplicates)
            .field("already_sent", &self.already_sent)
            .finish_non_exhaustive()
    }
}

impl CommitReceipt {
    /// A receipt with nothing in flight: the routes of all messages are known.
    pub(crate) fn known(known: RouteCounts) -> Self {
        Self { known, ..Self::default() }
    }

    pub(crate) fn published(mut self, published: oneshot::Receiver<RouteCounts>) -> Self {
        self.published = Some(published);
        self
    }

    pub(crate) fn with_duplicates(mut self, duplicates: Vec<(JobId, JobId)>) -> Self {
        self.duplicates = duplicates;
        self
    }

    pub(crate) fn with_known(mut self, known: Vec<JobId>) -> Self {
        self.already_sent = known;
        self
    }

    pub(super) fn executed(mut self, jobs: usize) -> Self {
        self.known.executor += jobs;
        self
    }

    /// Makes the commit of a context wait for this future before it returns. The commit of a handler waits for nothing. The caller of
    /// [`Flushed::committed`](crate::Flushed::committed) waits with [`settled`](Self::settled).
    #[must_use]
    pub fn then(mut self, wait: impl Future<Output = ()> + Send + 'static) -> Self {
        self.then.push(Box::pin(wait));
        self
    }

    pub(crate) async fn waited(mut self) -> Self {
        for wait in std::mem::take(&mut self.then) {
            wait.await;
        }
        self
    }

    /// Unique jobs that were not sent because another job holds their key: pairs of their id and the id of that job.
    pub fn duplicates(&self) -> &[(JobId, JobId)] {
        &self.duplicates
    }

    /// The ids of jobs that were sent before, with this kind and to this queue, and are not done. They stay as they are.
    pub fn already_sent(&self) -> &[JobId] {
        &self.already_sent
    }

    /// Waits until the broker has answered for every message, at most about `broker.confirm_timeout`.
    pub async fn settled(self) -> RouteCounts {
        let Self { known: mut all, published, .. } = self.waited().await;
        if let Some(published) = published
            // The publishing task always answers, unless the runtime is shutting down.
            && let Ok(more) = published.await
        {
            all.executor += more.executor;
            all.broker += more.broker;
            all.table += more.table;
        }
        all
    }
}

/// How many messages of a commit took which route. All of them are rows; the route only decides how an executor learns of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteCounts {
    /// Straight to an executor in this process.
    pub executor: usize,
    /// Through the broker, which has confirmed them.
    pub broker: usize,
    /// Only into the table: due later, with a priority of their own, refused by the broker, or not confirmed in time. Executors claim them
    /// there.
    pub table: usize,
}
