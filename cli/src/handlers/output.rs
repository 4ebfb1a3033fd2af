//! The worker's stdout, shared by the programs it runs.

use std::io::{self, Write as _};

use tokio_util::sync::CancellationToken;

/// Writes the output of programs, each in one piece, so that lines of concurrent jobs never mix.
#[derive(Debug, Default)]
pub(crate) struct Output {
    closed: CancellationToken,
}

impl Output {
    /// Writes all bytes, and waits until they are written. An error is final: the reader has gone.
    pub(super) async fn write(&self, bytes: Vec<u8>) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        // Runs on its own thread, so that a slow reader only blocks writers. Writes everything, even if this future is dropped.
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
