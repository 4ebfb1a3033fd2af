//! How the engine reads and writes: each call is one transaction on one connection, with a deadline.

use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::Connection;
use tokio::time::Instant;

use super::error::{Failure, Work, is_busy};
use super::serial_connection::{ConnectionGuard, SerialConnection};
use super::session::reset;
use super::shared::Shared;
use crate::error::{Error, ErrorKind, Result};

/// How long a statement may run beyond the deadline of its lock, so that the error is "busy" rather than "timeout".
const SLACK: Duration = Duration::from_millis(250);

/// Returns the current time in its stored form: microseconds since 1970, UTC.
///
/// The file has one host, and so one clock. SQLite's `'now'` reads the same clock, but only to the millisecond. The clock is read once per
/// transaction, after the write lock was taken, so that the wait for the lock does not count as past.
pub(super) fn now() -> i64 {
    Timestamp::now().as_microsecond()
}

impl Shared {
    /// Waits for the connection that writes. It is reset first if code of others had it: what that has set must not reach the next user.
    pub(super) async fn take_writer(&self, tried: &'static str, deadline: Instant) -> Result<ConnectionGuard> {
        let guard = self.wait_for_writer(tried, deadline).await?;
        if !self.lent.swap(false, Ordering::AcqRel) {
            return Ok(guard);
        }
        let (guard, done) = guard.run(tried, Some(deadline + SLACK), reset).await?;
        if let Err(error) = done {
            // Tried again by the next user; what is left may not be in the way of this one.
            self.lent.store(true, Ordering::Release);
            tracing::warn!(%error, "the connection of the embedded database could not be reset after a handler had it");
        }
        Ok(guard)
    }

    async fn wait_for_writer(&self, tried: &str, deadline: Instant) -> Result<ConnectionGuard> {
        self.writer.take(deadline).await.ok_or_else(|| {
            Error::new(
                ErrorKind::Busy,
                format!(
                    "can't {tried} in {}: a context of this process holds its one write transaction open, or a queue of \
                     writes has built up, for {:?}; commit sooner. Nothing was changed",
                    self.label, self.call_timeout
                ),
            )
        })
    }

    /// Runs one writing transaction. `work` gets the time at which it runs.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        tried: &'static str,
        work: impl FnOnce(&Connection, i64) -> Work<T> + Send + 'static,
    ) -> Result<T> {
        self.write_for(tried, self.call_timeout, work).await
    }

    /// Like [`write`](Self::write), with a time limit for the work itself.
    pub(super) async fn write_for<T: Send + 'static>(
        &self,
        tried: &'static str,
        limit: Duration,
        work: impl FnOnce(&Connection, i64) -> Work<T> + Send + 'static,
    ) -> Result<T> {
        let start = Instant::now();
        let guard = self.take_writer(tried, start + self.call_timeout).await?;
        let lock_by = (start + self.call_timeout).into_std();
        guard
            .finish(tried, Some(start + limit + SLACK), move |connection| {
                let mut committing = false;
                let done = begin(connection, lock_by).map_err(Failure::from).and_then(|()| {
                    let value = work(connection, now())?;
                    committing = true;
                    connection.execute_batch("commit")?;
                    Ok(value)
                });
                if !connection.is_autocommit() {
                    connection.execute_batch("rollback").map_err(|error| (error.into(), committing))?;
                }
                done.map_err(|failure| (failure, committing))
            })
            .await?
            .map_err(|(failure, committing)| {
                let error = failure.explain(tried, &self.label);
                if committing { error } else { error.keeping_nothing() }
            })
    }

    /// Runs a cheap query that decides whether the writer is needed at all. It never waits behind a context's transaction, or behind an
    /// operator's long listing.
    pub(super) async fn check<T: Send + 'static>(
        &self,
        tried: &'static str,
        work: impl FnOnce(&Connection, i64) -> Work<T> + Send + 'static,
    ) -> Result<T> {
        self.read(&self.checks, tried, work).await
    }

    /// Runs an operator's query with a consistent view of the whole file.
    pub(super) async fn query<T: Send + 'static>(
        &self,
        tried: &'static str,
        work: impl FnOnce(&Connection, i64) -> Work<T> + Send + 'static,
    ) -> Result<T> {
        self.read(&self.queries, tried, work).await
    }

    async fn read<T: Send + 'static>(
        &self,
        serial: &SerialConnection,
        tried: &'static str,
        work: impl FnOnce(&Connection, i64) -> Work<T> + Send + 'static,
    ) -> Result<T> {
        let deadline = Instant::now() + self.call_timeout;
        let Some(guard) = serial.take(deadline).await else {
            return Err(Error::new(
                ErrorKind::Busy,
                format!("can't {tried} in {}: other readers were busy for {:?}", self.label, self.call_timeout),
            ));
        };
        guard
            .finish(tried, Some(deadline + SLACK), move |connection| {
                // One snapshot for all statements of the work; dropping it ends it.
                let _snapshot = connection.unchecked_transaction()?;
                work(connection, now())
            })
            .await?
            .map_err(|failure| failure.explain(tried, &self.label))
    }
}

/// Begins a transaction with the write lock held, so that nothing in it can fail for lack of it later. Other processes may hold the lock
/// for a while.
pub(super) fn begin(connection: &Connection, deadline: std::time::Instant) -> rusqlite::Result<()> {
    if !connection.is_autocommit() {
        connection.execute_batch("rollback")?;
    }
    loop {
        match connection.execute_batch("begin immediate") {
            Err(error) if is_busy(&error) && std::time::Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            done => return done,
        }
    }
}
