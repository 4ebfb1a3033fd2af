//! Attempts to connect, with growing delays.

use std::time::Duration;

use crate::failure::Failure;

/// The first delay. Each is twice as long as the one before, up to the longest.
const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(10);

/// Tries until it succeeds or fails for a reason that does not go away.
pub(crate) async fn retried<T>(mut attempt: impl AsyncFnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    let mut delay = FIRST;
    loop {
        match attempt().await {
            Err(Failure::Library(error)) if error.is_retryable() => {
                tracing::warn!("not connected yet, trying again in {delay:?}: {error}");
                tokio::time::sleep(delay).await;
                delay = (delay * 2).min(LONGEST);
            }
            ended => return ended,
        }
    }
}
