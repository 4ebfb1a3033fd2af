//! Wake-ups after a commit: at once for executors in this process, through the store and coalesced for others.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::job_waiters::JobWaiters;
use super::local::{LocalExecutor, LocalHandoff};
use crate::job::{Due, JobMessage};
use crate::store::{Enqueue, Hint};

/// Shortest time between two notifications from one process. NOTIFY serialises the commits of a whole database, so a burst of commits
/// shares one. The first of a burst is sent at once.
const GAP: Duration = Duration::from_millis(10);

/// Tells executors that there is work.
pub(crate) struct WakeUp {
    executors: Mutex<Vec<Weak<dyn LocalExecutor>>>,
    remote: Arc<Remote>,
    store: Arc<dyn Enqueue>,
    /// The runtime in which it was made: a commit may be reported, and a queue woken, from a thread without one.
    home: Option<Handle>,
    /// Waiters for the end of a job, in this process.
    pub(crate) job_waiters: Arc<JobWaiters>,
}

#[derive(Default)]
struct Remote {
    pending: Mutex<Pending>,
    signal: Notify,
    /// Signals that the pending hints have been sent.
    sent: Notify,
}

#[derive(Default)]
struct Pending {
    hints: HashSet<Hint>,
    /// The sending task is running.
    started: bool,
    /// Hints have been taken and are being sent.
    sending: bool,
    /// No more hints will be added.
    closed: bool,
}

impl WakeUp {
    pub(crate) fn new(store: Arc<dyn Enqueue>) -> Self {
        let home = Handle::try_current().ok();
        Self { executors: Mutex::default(), remote: Arc::default(), store, home, job_waiters: Arc::default() }
    }

    /// Registers an executor for hints about commits in this process, for as long as it lives.
    pub(crate) fn register(&self, executor: Weak<dyn LocalExecutor>) {
        let mut executors = self.executors.lock().unwrap_or_else(PoisonError::into_inner);
        executors.retain(|known| known.strong_count() > 0);
        executors.push(executor);
    }

    fn executors(&self) -> Vec<Arc<dyn LocalExecutor>> {
        let executors = self.executors.lock().unwrap_or_else(PoisonError::into_inner);
        executors.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns a handoff of an executor in this process that takes jobs straight from a commit.
    pub(super) fn handoff(&self) -> Option<Box<dyn LocalHandoff>> {
        self.executors().iter().find_map(|executor| executor.handoff())
    }

    /// Notifies all executors when the returned value is dropped.
    pub(crate) fn notify_on_drop(&self, hint: Hint) -> NotifyOnDrop<'_> {
        NotifyOnDrop { wakeup: self, hint }
    }

    /// Notifies all executors, without waiting.
    pub(crate) fn notify(&self, hints: impl IntoIterator<Item = Hint>) {
        let hints: Vec<Hint> = hints.into_iter().collect();
        if hints.is_empty() {
            return;
        }
        for executor in self.executors() {
            for hint in &hints {
                executor.hint(hint);
            }
        }
        let Some(runtime) = Handle::try_current().ok().or_else(|| self.home.clone()) else {
            // No runtime to send from: others find the jobs when they poll.
            return;
        };
        let start = {
            let mut pending = self.remote.pending.lock().unwrap_or_else(PoisonError::into_inner);
            pending.hints.extend(hints);
            !std::mem::replace(&mut pending.started, true)
        };
        if start {
            runtime.spawn(send_hints(Running(self.remote.clone()), self.store.clone()));
        }
        self.remote.signal.notify_one();
    }
}

impl WakeUp {
    /// Waits until all hints so far have been sent to other processes, or have failed.
    pub(super) async fn sent(&self) {
        loop {
            let sent = self.remote.sent.notified();
            tokio::pin!(sent);
            // Listens from here on, so that an end between the check and the wait is not missed.
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

/// The task that sends hints. Its runtime may end before the process does: then the next hint starts another one.
struct Running(Arc<Remote>);

impl Drop for Running {
    fn drop(&mut self) {
        let mut pending = self.0.pending.lock().unwrap_or_else(PoisonError::into_inner);
        (pending.started, pending.sending) = (false, false);
        drop(pending);
        self.0.sent.notify_waiters();
    }
}

/// Sends hints through the engine's own connection. A hint that fails is dropped: polling finds the jobs.
async fn send_hints(running: Running, store: Arc<dyn Enqueue>) {
    let remote = &running.0;
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

/// Returns the hints for these messages: each queue once, plus admission, timers and expiry where needed.
pub(crate) fn hints<'m>(messages: impl IntoIterator<Item = &'m JobMessage>) -> Vec<Hint> {
    let mut hints = Vec::new();
    for message in messages {
        // A delivered message needs no wake-up.
        let ready = message.hidden_for.is_zero().then(|| match message.due {
            Due::Now if message.is_blocked_at_first() => Hint::Admission,
            Due::Now => Hint::Queue(message.queue.clone()),
            Due::In(_) | Due::At(_) => Hint::Timer,
        });
        let expiry = message.options.ttl.map(|_| Hint::Expiry);
        for hint in ready.into_iter().chain(expiry) {
            if !hints.contains(&hint) {
                hints.push(hint);
            }
        }
    }
    hints
}

/// Notifies executors when it is dropped: of work that may be there whatever ends a call.
pub(crate) struct NotifyOnDrop<'a> {
    wakeup: &'a WakeUp,
    hint: Hint,
}

impl Drop for NotifyOnDrop<'_> {
    fn drop(&mut self) {
        self.wakeup.notify([self.hint.clone()]);
    }
}
