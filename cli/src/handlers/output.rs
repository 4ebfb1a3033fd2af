//! The worker's stdout, shared by the programs it runs.

use std::io::{self, Write as _};

use tokio_util::sync::CancellationToken;

/// Writes what programs wrote: each in one piece, so that lines of jobs that run at the same time never mix.
#[derive(Debug, Default)]
pub(crate) struct Output {
    closed: CancellationToken,
}

impl Output {
    /// Writes all of it, and waits until it has been written. An error is final: whoever read it has gone.
    pub(super) async fn write(&self, bytes: Vec<u8>) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        // On a thread of its own, so that a slow reader stops only those who write; whole, even if this future is dropped.
        let writing = tokio::task::spawn_blocking(move || {
            let mut stdout = io::stdout().lock();
            stdout.write_all(&bytes).and_then(|()| stdout.flush())
        });
        writing.await.unwrap_or_else(|error| Err(io::Error::other(error))).inspect_err(|_| self.closed.cancel())
    }

    /// Returns when nothing can be written any more.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }
}
