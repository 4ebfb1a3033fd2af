//! One connection and how to work on it: the holder of its guard works on a blocking thread, and leaves the connection outside a
//! transaction.

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, InterruptHandle};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::JoinError;
use tokio::time::{Instant, timeout, timeout_at};

use crate::error::{Error, ErrorKind, Result};

/// How long an interrupted statement may take to stop before the caller gives up on it.
const STOP: Duration = Duration::from_secs(1);

/// A connection that takes one piece of work at a time, first come, first served.
pub(super) struct SerialConnection {
    connection: Arc<Mutex<Connection>>,
    interrupt: Arc<InterruptHandle>,
}

impl SerialConnection {
    pub(super) fn new(connection: Connection) -> Self {
        let interrupt = Arc::new(connection.get_interrupt_handle());
        Self { connection: Arc::new(Mutex::new(connection)), interrupt }
    }

    /// Waits for the connection. Returns `None` if it did not become free in time.
    pub(super) async fn take(&self, deadline: Instant) -> Option<ConnectionGuard> {
        let connection = timeout_at(deadline, Arc::clone(&self.connection).lock_owned()).await.ok()?;
        Some(ConnectionGuard { connection, interrupt: Arc::clone(&self.interrupt) })
    }
}

/// Exclusive use of a connection until dropped. Dropping also rolls back any open transaction, because a cancelled future must never leave
/// the next user inside its transaction.
///
/// The rollback runs where the drop happens. It only discards what is in memory, so it is short.
pub(super) struct ConnectionGuard {
    connection: OwnedMutexGuard<Connection>,
    interrupt: Arc<InterruptHandle>,
}

impl fmt::Debug for ConnectionGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hold")
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("rollback")
        {
            // The next user tries again before beginning.
            tracing::warn!(%error, "a transaction of the embedded database could not be rolled back yet");
        }
    }
}

impl ConnectionGuard {
    /// Works on the connection and returns the guard.
    pub(super) async fn run<T: Send + 'static>(
        self,
        tried: &'static str,
        deadline: Option<Instant>,
        work: impl FnOnce(&Connection) -> T + Send + 'static,
    ) -> Result<(Self, T)> {
        self.spawn(tried, deadline, work, |guard, value| (guard, value)).await
    }

    /// Works on the connection and releases it at once, before the caller gets the result.
    pub(super) async fn finish<T: Send + 'static>(
        self,
        tried: &'static str,
        deadline: Option<Instant>,
        work: impl FnOnce(&Connection) -> T + Send + 'static,
    ) -> Result<T> {
        self.spawn(tried, deadline, work, |_, value| value).await
    }

    async fn spawn<T, R: Send + 'static>(
        self,
        tried: &'static str,
        deadline: Option<Instant>,
        work: impl FnOnce(&Connection) -> T + Send + 'static,
        after: impl FnOnce(Self, T) -> R + Send + 'static,
    ) -> Result<R> {
        let interrupt = Arc::clone(&self.interrupt);
        let running = Running::default();
        let stop = Stop { running: running.clone(), interrupt };
        let mut task = tokio::task::spawn_blocking(move || {
            let started = running.start();
            let value = work(&self.connection);
            // Dropped before the connection is released: a late interrupt must not hit another user's work.
            drop(started);
            after(self, value)
        });
        let joined = match deadline {
            None => (&mut task).await,
            Some(deadline) => match timeout_at(deadline, &mut task).await {
                Ok(joined) => joined,
                Err(_) => stop.insist(&mut task).await.ok_or_else(|| out_of_time(tried))?,
            },
        };
        joined.map_err(|error| not_run(error, tried))
    }
}

/// Whether the work is being done right now.
#[derive(Clone, Default)]
struct Running(Arc<std::sync::Mutex<bool>>);

impl Running {
    fn lock(&self) -> std::sync::MutexGuard<'_, bool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) -> Started<'_> {
        *self.lock() = true;
        Started(self)
    }
}

/// Marks the work as running until dropped, also by a panic.
struct Started<'a>(&'a Running);

impl Drop for Started<'_> {
    fn drop(&mut self) {
        *self.0.lock() = false;
    }
}

/// Interrupts the running statement, at the latest when the future that waits for it is dropped.
struct Stop {
    running: Running,
    interrupt: Arc<InterruptHandle>,
}

impl Stop {
    fn once(&self) {
        let running = self.running.lock();
        if *running {
            self.interrupt.interrupt();
        }
    }

    /// Repeats the interrupt, because between two statements it has no effect.
    async fn insist<R>(&self, task: &mut tokio::task::JoinHandle<R>) -> Option<Result<R, JoinError>> {
        let last = Instant::now() + STOP;
        while Instant::now() < last {
            self.once();
            if let Ok(joined) = timeout(Duration::from_millis(5), &mut *task).await {
                return Some(joined);
            }
        }
        // This has an effect only if no thread was free to start the task.
        task.abort();
        None
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.once();
    }
}

fn out_of_time(tried: &str) -> Error {
    Error::new(
        ErrorKind::Timeout,
        format!(
            "to {tried} took longer than `database.call_timeout` and did not stop when told to; its outcome is not known"
        ),
    )
}

/// A panic of the work (a user's closure) resumes in the task that asked for it.
fn not_run(error: JoinError, tried: &str) -> Error {
    match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(error) => Error::new(ErrorKind::Unreachable, format!("can't {tried}: the runtime is shutting down"))
            .with_source(error),
    }
}
