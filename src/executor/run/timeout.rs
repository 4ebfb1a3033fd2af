//! The time limit of a call.

use std::time::Duration;

/// Waits for a call, at most for its limit if it has one. Returns the limit if that was too short.
pub(crate) async fn within<T>(limit: Option<Duration>, call: impl Future<Output = T>) -> Result<T, Duration> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, call).await.map_err(|_| limit),
        None => Ok(call.await),
    }
}
