//! Wake-ups after a commit: executors in this process at once, others over the store, coalesced.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::bells::Bells;
use super::local::{LocalExecutor, Offer};
use crate::job::{Due, JobMessage};
use crate::store::{Hint, JobStore};

/// Shortest time between two notifications from one process. NOTIFY serialises the commits of a whole database, so a burst of
/// commits shares one; the first of a burst goes out at once.
const GAP: Duration = Duration::from_millis(10);

/// Spreads the word that there is work.
pub(crate) struct WakeUp {
    executors: Mutex<Vec<Weak<dyn LocalExecutor>>>,
    remote: Arc<Remote>,
    store: Arc<dyn JobStore>,
    /// For who waits here for the end of a job.
    pub(crate) bells: Arc<Bells>,
}

#[derive(Default)]
struct Remote {
    pending: Mutex<Pending>,
    signal: Notify,
    /// What was pending has been sent.
    sent: Notify,
}

#[derive(Default)]
struct Pending {
    hints: HashSet<Hint>,
    /// The task that sends them is running.
    started: bool,
    /// Some have been taken and are on their way.
    sending: bool,
    /// Nobody will add to them any more.
    closed: bool,
}

impl WakeUp {
    pub(crate) fn new(store: Arc<dyn JobStore>) -> Self {
        Self { executors: Mutex::default(), remote: Arc::default(), store, bells: Arc::default() }
    }

    /// Makes an executor hear of commits in this process, for as long as it lives.
    pub(crate) fn register(&self, executor: Weak<dyn LocalExecutor>) {
        let mut executors = self.executors.lock().unwrap_or_else(PoisonError::into_inner);
        executors.retain(|known| known.strong_count() > 0);
        executors.push(executor);
    }

    fn executors(&self) -> Vec<Arc<dyn LocalExecutor>> {
        let executors = self.executors.lock().unwrap_or_else(PoisonError::into_inner);
        executors.iter().filter_map(Weak::upgrade).collect()
    }

    /// An executor in this process that takes jobs straight from a commit.
    pub(super) fn offer(&self) -> Option<Box<dyn Offer>> {
        self.executors().iter().find_map(|executor| executor.offer())
    }

    /// Tells everybody, without waiting.
    pub(crate) fn tell(&self, hints: impl IntoIterator<Item = Hint>) {
        let hints: Vec<Hint> = hints.into_iter().collect();
        if hints.is_empty() {
            return;
        }
        for executor in self.executors() {
            for hint in &hints {
                executor.hint(hint);
            }
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            // No runtime to send from: others find the jobs when they poll.
            return;
        };
        let start = {
            let mut pending = self.remote.pending.lock().unwrap_or_else(PoisonError::into_inner);
            pending.hints.extend(hints);
            !std::mem::replace(&mut pending.started, true)
        };
        if start {
            runtime.spawn(send_hints(self.remote.clone(), self.store.clone()));
        }
        self.remote.signal.notify_one();
    }
}

impl WakeUp {
    /// Waits until everything told so far has been sent to other processes, or could not be.
    pub(super) async fn sent(&self) {
        loop {
            let sent = self.remote.sent.notified();
            tokio::pin!(sent);
            // Listens from here on, so that an end between the look and the wait is not missed.
            sent.as_mut().enable();
            {
                let pending = self.remote.pending.lock().unwrap_or_else(PoisonError::into_inner);
                if pending.hints.is_empty() && !pending.sending {
                    return;
                }
            }
            sent.await;
        }
    }
}

impl Drop for WakeUp {
    fn drop(&mut self) {
        self.remote.pending.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.remote.signal.notify_one();
    }
}

/// Sends hints from a connection of the engine. One that fails is dropped: it is only a hint, and polling finds the jobs.
async fn send_hints(remote: Arc<Remote>, store: Arc<dyn JobStore>) {
    loop {
        let (hints, closed): (Vec<Hint>, bool) = {
            let mut pending = remote.pending.lock().unwrap_or_else(PoisonError::into_inner);
            pending.sending = !pending.hints.is_empty();
            (pending.hints.drain().collect(), pending.closed)
        };
        if !hints.is_empty() {
            if let Err(error) = store.notify(&hints).await {
                tracing::debug!(%error, "a wake-up for other processes was not sent; they will find the jobs when they poll");
            }
            remote.pending.lock().unwrap_or_else(PoisonError::into_inner).sending = false;
            remote.sent.notify_waiters();
            tokio::time::sleep(GAP).await;
        } else if closed {
            return;
        } else {
            remote.signal.notified().await;
        }
    }
}

/// Who has to hear of these messages: each queue once, those who admit, and those who wait for a time.
pub(crate) fn hints<'m>(messages: impl IntoIterator<Item = &'m JobMessage>) -> Vec<Hint> {
    let mut hints = Vec::new();
    for message in messages {
        // What is delivered needs no wake-up.
        let ready = message.hold.is_zero().then(|| match message.due {
            Due::Now if message.is_blocked_at_first() => Hint::Gate,
            Due::Now => Hint::Queue(message.queue.clone()),
            Due::In(_) | Due::At(_) => Hint::Timer,
        });
        let expiry = message.terms.ttl.map(|_| Hint::Expiry);
        for hint in ready.into_iter().chain(expiry) {
            if !hints.contains(&hint) {
                hints.push(hint);
            }
        }
    }
    hints
}
