//! The slots that a running job holds.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::executor::node::limits::Running;

/// The slots that a job and the jobs of its group that follow it hold: one of its queue, and one of its kind if that has a limit.
#[derive(Debug)]
pub(crate) struct Slots {
    _queue: OwnedSemaphorePermit,
    pub(crate) kind: Option<OwnedSemaphorePermit>,
    _running: Option<Running>,
    /// When they were taken.
    since: Instant,
    /// Threads of blocking handlers, which may outlive their attempt.
    pub(crate) threads: OnceLock<TaskTracker>,
}

impl Slots {
    /// Creates the slots of a job. `running`: the limits that its claim counted.
    pub(crate) fn new(
        queue: OwnedSemaphorePermit,
        kind: Option<OwnedSemaphorePermit>,
        running: Option<Running>,
    ) -> Arc<Self> {
        Arc::new(Self { _queue: queue, kind, _running: running, since: Instant::now(), threads: OnceLock::new() })
    }

    /// Returns whether another job may follow in them: within this time of the first, and with no thread still running.
    pub(crate) fn has_time(&self, turn: Duration) -> bool {
        self.threads.get().is_none() && self.since.elapsed() < turn
    }

    /// Waits until nothing of the attempt runs any more. `false`: `stop` came first.
    pub(crate) async fn attempt_ended(&self, stop: &CancellationToken) -> bool {
        let Some(threads) = self.threads.get() else { return true };
        threads.close();
        tokio::select! {
            biased;
            () = threads.wait() => true,
            () = stop.cancelled() => false,
        }
    }
}
