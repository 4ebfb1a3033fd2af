//! Calls that no node waits for once its lease is over.

use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind, Result};

/// Waits for the answer to a call, but for no longer than the lease lasts, at whose end `lost` is cancelled. What the call was about is recorded
/// again then, which the store refuses if the call has taken effect after all.
pub(crate) async fn while_leased<T>(lost: &CancellationToken, call: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        biased;
        answer = call => answer,
        () = lost.cancelled() => {
            Err(Error::new(ErrorKind::Timeout, "the lease ended before the database answered").already_logged())
        }
    }
}
