//! Tells the database that handlers have ended whose outcome it did not take.
//!
//! A job that was cancelled while it ran is gone, but what it held (its group, its places under limits) stays taken until its handler has ended,
//! which only its node knows. See docs/adr/0055-endings.md.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::backoff::Reconnect;
use crate::error::{Result, warn_of};
use crate::job::{Fence, NodeId};
use crate::store::JobStore;

/// Claims named in one statement.
const BATCH: usize = 1000;

/// Claims whose handlers have ended, and of which the database has not heard.
#[derive(Debug, Default)]
pub(super) struct Ends {
    claims: Mutex<Vec<Fence>>,
    news: Notify,
}

impl Ends {
    pub(super) fn add(&self, fences: impl Iterator<Item = Fence>) {
        self.lock().extend(fences);
        self.news.notify_one();
    }

    /// Tells of all there are. `true`: some of them held something, so others may be admitted. What could not be told is kept.
    pub(super) async fn tell(&self, store: &dyn JobStore, node: NodeId) -> Result<bool> {
        let mut claims = std::mem::take(&mut *self.lock());
        let mut freed = false;
        while !claims.is_empty() {
            let rest = claims.len().saturating_sub(BATCH);
            match store.handlers_ended(node, &claims[rest..]).await {
                Ok(held) => freed |= held > 0,
                Err(error) => {
                    self.lock().extend(claims);
                    return Err(error);
                }
            }
            claims.truncate(rest);
        }
        Ok(freed)
    }

    /// Tells of them as they come, and rings `gate` when that may let others start. Again after an outage, until the node ends: then whoever
    /// retires it frees what is left.
    pub(super) async fn run(&self, store: &dyn JobStore, node: NodeId, gate: &Notify, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.news.notified() => {}
            }
            let mut delays = Reconnect::new(Duration::from_secs(2));
            loop {
                match self.tell(store, node).await {
                    Ok(freed) => {
                        if freed {
                            gate.notify_one();
                        }
                        break;
                    }
                    Err(error) => {
                        warn_of!(
                            error,
                            "could not tell that the handlers of cancelled jobs have ended; their groups wait; trying again"
                        );
                        // What an earlier part freed is admitted meanwhile.
                        gate.notify_one();
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
