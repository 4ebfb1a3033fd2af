//! How the engine reads and writes: each call is one transaction on one connection, with a deadline.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::Connection;
use tokio::time::Instant;

use super::Inner;
use super::failure::{Failure, Work, is_busy};
use super::lane::{Hold, Lane};
use crate::error::{Error, ErrorKind, Result};

/// What a statement may take beyond the deadline of its lock, so that "busy" is said rather than "timeout".
const SLACK: Duration = Duration::from_millis(250);

/// Now, as it is stored: microseconds since 1970, UTC.
///
/// The file has one host, and so one clock: SQLite's `'now'` asks the same one, but to the millisecond only. It is read once
/// a transaction, after the write lock is held, so whatever waited for the lock is not counted as if it had already happened.
pub(super) fn now() -> i64 {
    Timestamp::now().as_microsecond()
}

impl Inner {
    /// Waits for the connection that writes.
    pub(super) async fn take_writer(&self, tried: &str, deadline: Instant) -> Result<Hold> {
        self.writer.take(deadline).await.ok_or_else(|| {
            Error::new(
                ErrorKind::Busy,
                format!(
                    "can't {tried} in {}: a context of this process holds its one write transaction open, or a queue of \
                     writes has built up, for {:?}; commit sooner. Nothing was changed",
                    self.place, self.call_timeout
                ),
            )
        })
    }

    /// One transaction that writes. `work` gets the moment it runs at.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        tried: &'static str,
        work: impl FnOnce(&Connection, i64) -> Work<T> + Send + 'static,
    ) -> Result<T> {
        self.write_for(tried, self.call_timeout, work).await
    }

    /// The same with its own time for the work itself.
    pub(super) async fn write_for<T: Send + 'static>(
        &self,
        tried: &'static str,
        limit: Duration,
        work: impl FnOnce(&Connection, i64) -> Work<T> + Send + 'static,
    ) -> Result<T> {
        let start = Instant::now();
        let hold = self.take_writer(tried, start + self.call_timeout).await?;
        let lock_by = (start + self.call_timeout).into_std();
        hold.finish(tried, Some(start + limit + SLACK), move |connection| {
            let done = begin(connection, lock_by).map_err(Failure::from).and_then(|()| {
                let value = work(connection, now())?;
                connection.execute_batch("commit")?;
                Ok(value)
            });
            if !connection.is_autocommit() {
                connection.execute_batch("rollback")?;
            }
            done
        })
        .await?
        .map_err(|failure| failure.explain(tried, &self.place))
    }

    /// Something cheap that decides whether the writer is needed at all: it never waits behind a context's transaction, and
    /// never behind an operator's long listing.
    pub(super) async fn check<T: Send + 'static>(
        &self,
        tried: &'static str,
        work: impl FnOnce(&Connection, i64) -> Work<T> + Send + 'static,
    ) -> Result<T> {
        self.read(&self.checks, tried, work).await
    }

    /// A question of an operator: a consistent view of the whole file.
    pub(super) async fn query<T: Send + 'static>(
        &self,
        tried: &'static str,
        work: impl FnOnce(&Connection, i64) -> Work<T> + Send + 'static,
    ) -> Result<T> {
        self.read(&self.queries, tried, work).await
    }

    async fn read<T: Send + 'static>(
        &self,
        lane: &Lane,
        tried: &'static str,
        work: impl FnOnce(&Connection, i64) -> Work<T> + Send + 'static,
    ) -> Result<T> {
        let deadline = Instant::now() + self.call_timeout;
        let Some(hold) = lane.take(deadline).await else {
            return Err(Error::new(
                ErrorKind::Busy,
                format!("can't {tried} in {}: other readers were busy for {:?}", self.place, self.call_timeout),
            ));
        };
        hold.finish(tried, Some(deadline + SLACK), move |connection| {
            // One snapshot for all statements of the work; dropping it ends it.
            let _snapshot = connection.unchecked_transaction()?;
            work(connection, now())
        })
        .await?
        .map_err(|failure| failure.explain(tried, &self.place))
    }
}

/// Begins a transaction with the write lock held, so that nothing in it can fail for want of it later. Other processes may
/// hold it for a while.
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
