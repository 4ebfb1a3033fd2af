//! Reports handlers to the database that have ended without an accepted outcome.
//!
//! A job that was cancelled while it ran is gone. But what it held (its group, its permits) stays taken until its handler has ended, and
//! only its node knows when. See docs/adr/0055-terminating-handlers.md.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::backoff::Reconnect;
use crate::error::{Result, warn_of};
use crate::job::{Fence, NodeId};
use crate::store::Outcomes;

/// The most claims named in one statement.
const BATCH: usize = 1000;

/// Claims whose handlers have ended, and which the database does not know to have ended.
#[derive(Debug, Default)]
pub(crate) struct EndedHandlers {
    claims: Mutex<Vec<Fence>>,
    news: Notify,
}

impl EndedHandlers {
    pub(crate) fn add(&self, fences: impl Iterator<Item = Fence>) {
        self.lock().extend(fences);
        self.news.notify_one();
    }

    /// Reports the claims that are left, if any.
    pub(crate) fn check(&self) {
        self.news.notify_one();
    }

    /// Reports all claims. `true`: some of them held something, so others may be admitted. Claims that could not be reported are kept.
    pub(crate) async fn flush(&self, store: &dyn Outcomes, node: NodeId) -> Result<bool> {
        let mut freed = false;
        loop {
            // They stay listed until they are reported, whatever happens to this call. Others are added behind them.
            let batch: Vec<Fence> = self.lock().iter().take(BATCH).copied().collect();
            if batch.is_empty() {
                return Ok(freed);
            }
            freed |= store.handlers_ended(node, &batch).await? > 0;
            self.lock().drain(..batch.len());
        }
    }

    /// Reports claims as they come, and notifies `admission_due` when other jobs may start. It retries after an outage, until the node
    /// ends. Retiring the node then frees what is left.
    pub(crate) async fn run(
        &self,
        store: &dyn Outcomes,
        node: NodeId,
        admission_due: &Notify,
        stop: CancellationToken,
    ) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.news.notified() => {}
            }
            let mut delays = Reconnect::new(Duration::from_secs(2));
            loop {
                match self.flush(store, node).await {
                    Ok(freed) => {
                        if freed {
                            admission_due.notify_one();
                        }
                        break;
                    }
                    Err(error) => {
                        warn_of!(
                            error,
                            "could not record that the handlers of cancelled jobs have ended; their groups stay held; trying again"
                        );
                        // What an earlier statement freed can be admitted meanwhile.
                        admission_due.notify_one();
                    }
                }
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(delays.next_delay()) => {}
                }
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Fence>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
