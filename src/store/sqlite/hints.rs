//! Hints: SQLite sends no notification of a commit, but the file has a version that every connection can read at almost no cost.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use tokio::time::Instant;

use super::error::explain;
use super::serial_connection::SerialConnection;
use super::shared::Shared;
use crate::error::{Error, ErrorKind, Result};
use crate::store::sections::section;
use crate::store::{Hint, HintStream};

const SQL: &str = include_str!("hints.sql");
const DATA_VERSION: &str = section(SQL, "data_version");

/// How often the version is read, and so how late a hint may be.
const INTERVAL: Duration = Duration::from_millis(50);

/// Yields [`Hint::Any`] after commits of other connections, including those of this process.
pub(super) struct Versions {
    store: Arc<Shared>,
    connection: SerialConnection,
    seen: i64,
}

impl Versions {
    /// Starts listening: every commit after this returns is noticed.
    pub(super) async fn listen(store: Arc<Shared>) -> Result<Self> {
        let connection = store.open_connection().await?;
        let mut versions = Self { store, connection, seen: 0 };
        versions.seen = versions.read().await?;
        Ok(versions)
    }

    async fn read(&self) -> Result<i64> {
        let tried = "look for changes";
        let deadline = Instant::now() + self.store.call_timeout;
        let busy =
            || Error::new(ErrorKind::Busy, format!("can't {tried} in {}: it is still being read", self.store.label));
        let hold = self.connection.take(deadline).await.ok_or_else(busy)?;
        hold.finish(tried, Some(deadline), data_version)
            .await?
            .map_err(|error| explain(error, tried, &self.store.label))
    }
}

#[async_trait]
impl HintStream for Versions {
    async fn next(&mut self) -> Result<Hint> {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let version = self.read().await?;
            if version != self.seen {
                self.seen = version;
                return Ok(Hint::Any);
            }
        }
    }
}

fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached(DATA_VERSION)?.query_row([], |row| row.get(0))
}
