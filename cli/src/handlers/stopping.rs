//! How the worker tells its handlers that it stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

/// In order first, at once when that takes too long for somebody.
#[derive(Clone, Default)]
pub(crate) struct Stopping {
    in_order: CancellationToken,
    at_once: CancellationToken,
    /// Somebody ran who was told.
    cut: Arc<AtomicBool>,
}

impl Stopping {
    /// Programs are asked to end, requests are given up.
    pub(crate) fn ask(&self) {
        self.in_order.cancel();
    }

    /// Programs are killed.
    pub(crate) fn force(&self) {
        self.in_order.cancel();
        self.at_once.cancel();
    }

    /// Whether a handler ran that was told.
    pub(crate) fn cut_short(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// Returns when they are asked. For handlers that run.
    pub(super) async fn in_order(&self) {
        self.in_order.cancelled().await;
        self.cut.store(true, Ordering::Relaxed);
    }

    /// Returns when they are to be killed. For handlers that run.
    pub(super) async fn at_once(&self) {
        self.at_once.cancelled().await;
        self.cut.store(true, Ordering::Relaxed);
    }
}
