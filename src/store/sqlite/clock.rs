//! What a clock that was ahead left behind: see `store::clock`.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, ToSql, named_params};

use super::Sqlite;
use super::rows::{Micros, count, micros};
use crate::error::Result;
use crate::job::LONGEST_LEASE;
use crate::store::clock::FARTHEST;
use crate::store::{Ahead, Clock, LONGEST_HOLD};

const AHEAD: &str = include_str!("sql/ahead.sql");

/// What is set right: how it is called, how it is found and mended, and whether that has a limit of its own.
struct Mend {
    what: &'static str,
    find: &'static str,
    right: &'static str,
    longest: Option<Longest>,
}

enum Longest {
    Lease,
    Farthest,
}

macro_rules! mend {
    ($what:literal, $name:literal, $longest:expr) => {
        Mend {
            what: $what,
            find: include_str!(concat!("sql/ahead_", $name, ".sql")),
            right: include_str!(concat!("sql/right_", $name, ".sql")),
            longest: $longest,
        }
    };
}

const MENDS: [Mend; 8] = [
    mend!("opening.opens_at", "openings", None),
    mend!("rate_log.at", "rates", None),
    mend!("external_job.lease_until", "leases", Some(Longest::Lease)),
    mend!("job.terms.expires", "lives", Some(Longest::Farthest)),
    mend!("blocked_job.terms.expires", "blocked_lives", Some(Longest::Farthest)),
    mend!("timer_job.terms.expires", "timer_lives", Some(Longest::Farthest)),
    mend!("timer_job.due_at", "retries", Some(Longest::Farthest)),
    mend!("unique_key.expires_at", "uniques", Some(Longest::Farthest)),
];

#[async_trait]
impl Clock for Sqlite {
    /// Looks on a reader first, so that finding nothing takes no write lock.
    async fn set_right(&self) -> Result<Vec<Ahead>> {
        let tried = "set right what a wrong clock wrote";
        let find = |connection: &Connection, now: Micros| {
            let found = MENDS.iter().filter_map(|mend| mend.find(connection, now).transpose());
            found.collect::<rusqlite::Result<Vec<Ahead>>>()
        };
        if self.inner.check(tried, move |connection, now| Ok(find(connection, now)?)).await?.is_empty() {
            return Ok(Vec::new());
        }
        self.inner
            .write(tried, move |connection, now| {
                let found = find(connection, now)?;
                for mend in &MENDS {
                    mend.set_right(connection, now)?;
                }
                Ok(found)
            })
            .await
    }

    async fn ahead_of_clock(&self) -> Result<Vec<Ahead>> {
        self.inner
            .query("look for what lies ahead of the clock", |connection, now| {
                let mut statement = connection.prepare_cached(AHEAD)?;
                let params = named_params! { ":now": now, ":hold": micros(LONGEST_HOLD) };
                let rows = statement.query_map(params, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
                let mut all = Vec::new();
                for row in rows {
                    let (what, rows, farthest): (String, i64, Micros) = row?;
                    all.push(ahead(&what, rows, farthest));
                }
                Ok(all)
            })
            .await
    }
}

impl Mend {
    fn with_params<T>(&self, now: Micros, run: impl FnOnce(&[(&str, &dyn ToSql)]) -> T) -> T {
        match self.longest {
            None => run(named_params! { ":now": now }),
            Some(Longest::Lease) => run(named_params! { ":now": now, ":longest": micros(LONGEST_LEASE) }),
            Some(Longest::Farthest) => run(named_params! { ":now": now, ":longest": count(FARTHEST) }),
        }
    }

    fn find(&self, connection: &Connection, now: Micros) -> rusqlite::Result<Option<Ahead>> {
        let mut statement = connection.prepare_cached(self.find)?;
        let (rows, farthest): (i64, Micros) =
            self.with_params(now, |params| statement.query_row(params, |row| Ok((row.get(0)?, row.get(1)?))))?;
        Ok((rows > 0).then(|| ahead(self.what, rows, farthest)))
    }

    fn set_right(&self, connection: &Connection, now: Micros) -> rusqlite::Result<usize> {
        let mut statement = connection.prepare_cached(self.right)?;
        self.with_params(now, |params| statement.execute(params))
    }
}

fn ahead(what: &str, rows: i64, farthest: Micros) -> Ahead {
    let farthest = Duration::from_micros(farthest.max(0).unsigned_abs());
    Ahead { what: what.to_owned(), rows: rows.unsigned_abs(), farthest }
}
