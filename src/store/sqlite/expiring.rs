//! Expires jobs whose time to live is over: see `store::expiring`.

use std::time::Duration;

use rusqlite::{Connection, named_params};

use super::error::Work;
use super::history::{Memory, SourceTable};
use super::rows::{Micros, count};
use super::shared::Shared;
use super::statements::{Statement, statement};
use crate::error::Result;
use crate::store::expiring::EXPIRED;
use crate::store::{Expired, HistoryOutcome};

const NEXT_EXPIRY: &str = include_str!("sql/next_expiry.sql");
const EXPIRED_ROWS: &str = include_str!("sql/expired_rows.sql");
static EXPIRED_TO_DEAD: Statement = statement!("sql/expired_to_dead.sql");
const PRUNE_UNIQUE: &str = include_str!("sql/prune_unique.sql");
const KEYS_ARE_OVER: &str = include_str!("sql/keys_are_over.sql");
const REMOVE_EXPIRED: &str = include_str!("sql/remove_expired.sql");

/// The tables where jobs wait, each with a condition on its rows.
const PLACES: [(&str, &str); 3] =
    [("jobwright_job", "lock_owner is null"), ("jobwright_blocked_job", "true"), ("jobwright_timer_job", "true")];

impl Shared {
    pub(super) async fn expire_jobs(&self, limit: usize) -> Result<Expired> {
        let tried = "remove expired jobs";
        let limit = limit.max(1);
        let (next, over, now) =
            self.check(tried, |connection, now| Ok((next(connection)?, keys_are_over(connection, now)?, now))).await?;
        if !over && next.is_none_or(|next| next > now) {
            return Ok(Expired { jobs: 0, next: next.map(|next| wait(next, now)) });
        }
        let keep = self.history.keep;
        self.write(tried, move |connection, now| {
            connection.prepare_cached(PRUNE_UNIQUE)?.execute(named_params! { ":now": now, ":limit": count(limit) })?;
            let mut jobs = 0;
            let mut full = false;
            for place in PLACES {
                let gone = expire(connection, place, limit, Memory { keep, now })?;
                full |= gone == limit;
                jobs += gone as u64;
            }
            let next = if full { Some(Duration::ZERO) } else { next_after(connection, now)? };
            Ok(Expired { jobs, next })
        })
        .await
    }
}

/// Fills a table and its condition into a statement.
fn about(sql: &str, (table, rows): (&str, &str)) -> String {
    sql.replace("{table}", table).replace("{rows}", rows)
}

fn wait(at: Micros, now: Micros) -> Duration {
    Duration::from_micros(at.saturating_sub(now).max(0).unsigned_abs())
}

fn next(connection: &Connection) -> Work<Option<Micros>> {
    let mut soonest: Option<Micros> = None;
    for place in PLACES {
        let mut statement = connection.prepare_cached(&about(NEXT_EXPIRY, place))?;
        let next: Option<Micros> = statement.query_row([], |row| row.get(0))?;
        soonest = soonest.into_iter().chain(next).min();
    }
    Ok(soonest)
}

/// Returns whether the period of some unique keys is over.
fn keys_are_over(connection: &Connection, now: Micros) -> rusqlite::Result<bool> {
    connection.prepare_cached(KEYS_ARE_OVER)?.query_row(named_params! { ":now": now }, |row| row.get(0))
}

fn next_after(connection: &Connection, now: Micros) -> Work<Option<Duration>> {
    Ok(next(connection)?.map(|at| wait(at, now)))
}

fn expire(connection: &Connection, place: (&'static str, &str), limit: usize, memory: Memory) -> Work<usize> {
    let now = memory.now;
    let mut statement = connection.prepare_cached(&about(EXPIRED_ROWS, place))?;
    let found = statement.query_map(named_params! { ":now": now, ":limit": count(limit) }, |row| row.get(0))?;
    let found = found.collect::<rusqlite::Result<Vec<i64>>>()?;
    let mut dead_letter = connection.prepare_cached(&about(&EXPIRED_TO_DEAD, place))?;
    let mut remove = connection.prepare_cached(&about(REMOVE_EXPIRED, place))?;
    for seq in &found {
        memory.remember(connection, SourceTable::idle(place.0), *seq, HistoryOutcome::Expired, None)?;
        dead_letter.execute(named_params! { ":seq": seq, ":now": now, ":reason": EXPIRED })?;
        remove.execute(named_params! { ":seq": seq })?;
    }
    Ok(found.len())
}
