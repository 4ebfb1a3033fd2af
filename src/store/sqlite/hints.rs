//! Hints: SQLite tells nobody of a commit, but the file has a version that every connection can read at no cost.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use tokio::time::Instant;

use super::Inner;
use super::failure::explain;
use super::lane::Lane;
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Hint, HintStream};

const DATA_VERSION: &str = include_str!("sql/data_version.sql");

/// How often the version is read: what a hint may come late.
const INTERVAL: Duration = Duration::from_millis(50);

/// Yields [`Hint::Any`] after commits of other connections, those of this process included.
pub(super) struct Versions {
    store: Arc<Inner>,
    lane: Lane,
    seen: i64,
}

impl Versions {
    /// Hears of everything that is committed after this returns.
    pub(super) async fn listen(store: Arc<Inner>) -> Result<Self> {
        let lane = store.open_lane().await?;
        let mut versions = Self { store, lane, seen: 0 };
        versions.seen = versions.read().await?;
        Ok(versions)
    }

    async fn read(&self) -> Result<i64> {
        let tried = "look for changes";
        let deadline = Instant::now() + self.store.call_timeout;
        let busy =
            || Error::new(ErrorKind::Busy, format!("can't {tried} in {}: it is still being read", self.store.place));
        let hold = self.lane.take(deadline).await.ok_or_else(busy)?;
        hold.finish(tried, Some(deadline), data_version)
            .await?
            .map_err(|error| explain(error, tried, &self.store.place))
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
