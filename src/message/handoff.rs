use std::fmt;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use crate::job::JobId;

/// Committed messages on their way. Dropping it changes nothing; [`settled`](Self::settled) waits until it is known where each
/// of them went.
#[derive(Default)]
pub struct Handoff {
    known: WentTo,
    published: Option<oneshot::Receiver<WentTo>>,
    kept: Vec<(JobId, JobId)>,
    /// What the commit of a context waits for.
    then: Vec<BoxFuture<'static, ()>>,
}

impl fmt::Debug for Handoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handoff").field("known", &self.known).field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl Handoff {
    /// Nothing is under way: it is known where all of them are.
    pub(crate) fn known(known: WentTo) -> Self {
        Self { known, ..Self::default() }
    }

    pub(crate) fn published(mut self, published: oneshot::Receiver<WentTo>) -> Self {
        self.published = Some(published);
        self
    }

    pub(crate) fn kept_back(mut self, kept: Vec<(JobId, JobId)>) -> Self {
        self.kept = kept;
        self
    }

    pub(super) fn executed(mut self, jobs: usize) -> Self {
        self.known.executor += jobs;
        self
    }

    /// Makes the commit of a context wait for this before it returns. The commit of a handler waits for nothing; the caller of
    /// [`Flushed::committed`](crate::Flushed::committed) does by [`settled`](Self::settled).
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

    /// Unique jobs that were not sent because another one holds their key: their id, and the id of that one.
    pub fn kept(&self) -> &[(JobId, JobId)] {
        &self.kept
    }

    /// Waits until the broker has answered for every message, at most about `broker.confirm_timeout`.
    pub async fn settled(self) -> WentTo {
        let Self { known: mut all, published, .. } = self.waited().await;
        if let Some(published) = published
            // The task that publishes always answers, unless the runtime is ending.
            && let Ok(more) = published.await
        {
            all.executor += more.executor;
            all.broker += more.broker;
            all.table += more.table;
        }
        all
    }
}

/// How many messages of a commit went where. All of them are rows; this is about who hears of them how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WentTo {
    /// Straight to an executor in this process.
    pub executor: usize,
    /// Through the broker, which has confirmed them.
    pub broker: usize,
    /// Into the table alone: due later, of a priority of their own, refused by the broker, or not confirmed in time. Executors
    /// claim them there.
    pub table: usize,
}
