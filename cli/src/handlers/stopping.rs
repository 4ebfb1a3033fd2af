//! Signals handlers that the worker stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

/// First in good order, then at once when that takes too long.
#[derive(Clone, Default)]
pub(crate) struct Stopping {
    in_order: CancellationToken,
    at_once: CancellationToken,
    /// Whether a running handler was signalled.
    cut: Arc<AtomicBool>,
}

impl Stopping {
    /// Asks programs to end, and gives up requests.
    pub(crate) fn ask(&self) {
        self.in_order.cancel();
    }

    /// Kills programs.
    pub(crate) fn force(&self) {
        self.in_order.cancel();
        self.at_once.cancel();
    }

    /// Whether a running handler was signalled.
    pub(crate) fn cut_short(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// Returns when handlers are asked to stop. For running handlers.
    pub(super) async fn in_order(&self) {
        self.in_order.cancelled().await;
        self.cut.store(true, Ordering::Relaxed);
    }

    /// Returns when handlers are to be killed. For running handlers.
    pub(super) async fn at_once(&self) {
        self.at_once.cancelled().await;
        self.cut.store(true, Ordering::Relaxed);
    }
}
