//! Delays between attempts to connect.

use std::time::Duration;

/// The first one. Each is twice as long as the one before, up to the longest.
const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(10);

/// The delays of one series of attempts.
pub(crate) struct Delays(Duration);

impl Default for Delays {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Delays {
    /// Logs why an attempt failed, and waits for the next.
    pub(crate) async fn wait(&mut self, error: &jobwright::Error) {
        tracing::warn!("not connected yet, trying again in {:?}: {error}", self.0);
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST);
    }
}
