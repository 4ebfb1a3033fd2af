//! Drives the tasks of maintenance. Each does what is due, and says when it wants to run next.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::backoff::{Reconnect, jitter};
use crate::error::{Result, warn_of};

/// How much longer the tasks wait before they poll without a signal, in polls.
const FALLBACK_POLLS: u32 = 12;

/// A task that runs again and again.
pub(crate) trait Periodic: Send {
    /// What is logged when a run fails.
    const FAILED: &'static str;

    /// Does what is due now, in one batch.
    fn run(&mut self) -> impl Future<Output = Result<Next>> + Send;
}

/// When a task wants to run next, if no signal comes before.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    /// At once: there is more to do.
    Now,
    /// When something is due, as far as that is known. At the latest after the fallback.
    Due(Option<Duration>),
    /// After this pause.
    After(Duration),
}

/// Runs a task when something is due, when its signal announces something earlier (by a hint, or by the
/// [look ahead](super::look_ahead)), or after its fallback.
pub(crate) struct Driver {
    delays: Reconnect,
    /// The pause after a failure, if it does not grow with each.
    retry: Option<Duration>,
    fallback: Duration,
    signal: Arc<Notify>,
    stop: CancellationToken,
}

impl Driver {
    /// Creates the driver of a task that `signal` wakes, until `stop`. Without a signal it runs again after twelve polls. After failures it
    /// pauses for longer each time, up to a poll.
    pub(crate) fn new(poll: Duration, signal: Arc<Notify>, stop: CancellationToken) -> Self {
        Self { delays: Reconnect::new(poll), retry: None, fallback: poll * FALLBACK_POLLS, signal, stop }
    }

    /// Sets the pause after each failure. For tasks whose statements are heavy, and need not be repeated at once.
    pub(crate) fn retry(mut self, pause: Duration) -> Self {
        self.retry = Some(pause);
        self
    }

    /// Runs the task at once, and then again and again.
    pub(crate) async fn drive<T: Periodic>(mut self, mut task: T) {
        loop {
            let pause = match task.run().await {
                Ok(next) => {
                    self.delays.reset();
                    self.pause(next)
                }
                Err(error) => {
                    warn_of!(error, "{}; trying again", T::FAILED);
                    self.retry.map_or_else(|| self.delays.next_delay(), jitter)
                }
            };
            // Also where there is more to do: others get a turn, and a signal that came meanwhile is taken.
            if !self.wait(pause).await {
                return;
            }
        }
    }

    /// Runs the task after a pause, and then again and again.
    pub(crate) async fn drive_after<T: Periodic>(self, pause: Duration, task: T) {
        if self.wait(pause).await {
            self.drive(task).await;
        }
    }

    fn pause(&self, next: Next) -> Duration {
        match next {
            Next::Now => Duration::ZERO,
            // A little late rather than a little early: an early check finds nothing.
            Next::Due(next) => {
                next.map_or(self.fallback, |next| next + Duration::from_millis(1)).min(jitter(self.fallback))
            }
            Next::After(pause) => pause,
        }
    }

    /// Waits this long, or until the signal. `false`: the task has to stop.
    async fn wait(&self, pause: Duration) -> bool {
        tokio::select! {
            () = self.stop.cancelled() => false,
            () = self.signal.notified() => true,
            () = tokio::time::sleep(pause) => true,
        }
    }
}
