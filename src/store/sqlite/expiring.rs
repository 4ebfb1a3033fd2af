//! Expires jobs whose time to live is over: see `store::expiring`.

use std::sync::LazyLock;
use std::time::Duration;

use rusqlite::{Connection, named_params};

use super::history::{Memory, remember_where};
use super::rows::{Micros, count};
use super::shared::Shared;
use super::statements::{Statement, render, statement};
use crate::error::Result;
use crate::store::expiring::EXPIRED;
use crate::store::sections::section;
use crate::store::{Expired, HistoryOutcome};

const SQL: &str = include_str!("expiring.sql");
static NEXT_EXPIRY: Statement = statement!(SQL, "next_expiry");
static REMEMBER_EXPIRED: Statement = LazyLock::new(|| render(&remember_where(section(SQL, "expired"))));
static EXPIRE: Statement =
    LazyLock::new(|| render(&section(SQL, "expire").replace("{expired}", section(SQL, "expired"))));
const PRUNE_UNIQUE: &str = section(SQL, "prune_unique");
const KEYS_ARE_OVER: &str = section(SQL, "keys_are_over");

impl Shared {
    pub(super) async fn expire_jobs(&self, limit: usize) -> Result<Expired> {
        let tried = "remove expired jobs";
        let limit = limit.max(1);
        let (next, over, now) = self
            .check(tried, |connection, now| Ok((next_expiry(connection)?, keys_are_over(connection, now)?, now)))
            .await?;
        if !over && next.is_none_or(|next| next > now) {
            return Ok(Expired { jobs: 0, next: next.map(|next| wait(next, now)) });
        }
        let keep = self.history.keep;
        self.write(tried, move |connection, now| {
            connection.prepare_cached(PRUNE_UNIQUE)?.execute(named_params! { ":now": now, ":limit": count(limit) })?;
            let jobs = expire(connection, limit, Memory { keep, now })?;
            let next =
                if jobs == limit { Some(Duration::ZERO) } else { next_expiry(connection)?.map(|next| wait(next, now)) };
            Ok(Expired { jobs: jobs as u64, next })
        })
        .await
    }
}

fn wait(at: Micros, now: Micros) -> Duration {
    Duration::from_micros(at.saturating_sub(now).max(0).unsigned_abs())
}

fn next_expiry(connection: &Connection) -> rusqlite::Result<Option<Micros>> {
    connection.prepare_cached(&NEXT_EXPIRY)?.query_row([], |row| row.get(0))
}

/// Returns whether the period of some unique keys is over.
fn keys_are_over(connection: &Connection, now: Micros) -> rusqlite::Result<bool> {
    connection.prepare_cached(KEYS_ARE_OVER)?.query_row(named_params! { ":now": now }, |row| row.get(0))
}

fn expire(connection: &Connection, limit: usize, memory: Memory) -> rusqlite::Result<usize> {
    let (now, limit, outcome) = (memory.now, count(limit), HistoryOutcome::Expired);
    if memory.keeps(outcome) {
        let params = named_params! { ":now": now, ":limit": limit, ":outcome": outcome.as_str(), ":why": None::<&str> };
        connection.prepare_cached(&REMEMBER_EXPIRED)?.execute(params)?;
    }
    let params = named_params! { ":now": now, ":limit": limit, ":reason": EXPIRED };
    connection.prepare_cached(&EXPIRE)?.execute(params)
}
