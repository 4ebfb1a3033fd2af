//! How the worker tells its handlers that it stops.

use tokio_util::sync::CancellationToken;

/// In order first, at once when that takes too long for somebody.
#[derive(Clone, Default)]
pub(crate) struct Stopping {
    in_order: CancellationToken,
    at_once: CancellationToken,
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

    /// Returns when they are asked.
    pub(super) async fn in_order(&self) {
        self.in_order.cancelled().await;
    }

    /// Returns when they are to be killed.
    pub(super) async fn at_once(&self) {
        self.at_once.cancelled().await;
    }
}
