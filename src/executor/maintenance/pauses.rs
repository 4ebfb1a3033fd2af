//! How long a task waits for what becomes due.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::backoff::{Reconnect, jitter};

/// How much longer the tasks wait before they poll without a signal, in polls.
pub(crate) const FALLBACK_POLLS: u32 = 12;

/// The pauses of a task. It goes on when something is due, when a hint or the [look ahead](super::look_ahead) announces something earlier, or
/// after its fallback.
pub(crate) struct Pauses {
    delays: Reconnect,
    fallback: Duration,
    hint: Arc<Notify>,
    stop: CancellationToken,
}

impl Pauses {
    pub(crate) fn new(poll: Duration, hint: Arc<Notify>, stop: CancellationToken) -> Self {
        Self { delays: Reconnect::new(poll), fallback: poll * FALLBACK_POLLS, hint, stop }
    }

    /// Returns the pause after a success, when there is more to do.
    pub(crate) fn none(&mut self) -> Duration {
        self.delays.reset();
        Duration::ZERO
    }

    /// Returns the pause after a success, until the next is due. A little late rather than a little early: an early check finds nothing.
    pub(crate) fn until_due(&mut self, next: Option<Duration>) -> Duration {
        self.delays.reset();
        next.map_or(self.fallback, |next| next + Duration::from_millis(1)).min(jitter(self.fallback))
    }

    /// Returns the pause after a failure.
    pub(crate) fn after_failure(&mut self) -> Duration {
        self.delays.next_delay()
    }

    /// Waits this long, or until the hint. `false`: the task has to stop.
    pub(crate) async fn wait(&self, pause: Duration) -> bool {
        tokio::select! {
            () = self.stop.cancelled() => false,
            () = self.hint.notified() => true,
            () = tokio::time::sleep(pause) => true,
        }
    }
}
