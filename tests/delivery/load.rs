//! Commits that go on during faults.

use std::time::Duration;

use jobwright::Store;
use jobwright::{JobId, MessageServices};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::delivery::site::{note, send};

/// A producer in the background.
pub(crate) struct Load {
    stop: CancellationToken,
    task: JoinHandle<Vec<JobId>>,
}

impl Load {
    /// Commits `size` jobs at a time, with a pause between.
    pub(crate) fn start<S: Store>(messages: &MessageServices<S>, size: usize, pause: Duration) -> Self {
        let (stop, messages) = (CancellationToken::new(), messages.clone());
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let mut ids = Vec::new();
            let mut clock = tokio::time::interval(pause);
            while !stopped.is_cancelled() {
                clock.tick().await;
                ids.extend(send(&messages, size, note).await);
            }
            ids
        });
        Self { stop, task }
    }

    /// Stops and returns the committed jobs.
    pub(crate) async fn end(self) -> Vec<JobId> {
        self.stop.cancel();
        self.task.await.unwrap()
    }
}
