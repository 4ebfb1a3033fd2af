//! Repairs what a clock that ran ahead wrote: see `store::clock`.

use std::time::Duration;

use rusqlite::{Connection, ToSql, named_params};

use super::rows::{Micros, count, micros};
use super::shared::Shared;
use crate::error::Result;
use crate::job::LONGEST_LEASE;
use crate::store::clock::FARTHEST;
use crate::store::{MAX_HIDDEN, SkewedRows};

const CLOCK_SKEW: &str = include_str!("sql/clock_skew.sql");

/// A repair: its name, the statements that find and fix its rows, and the limit that it uses, if any.
struct Repair {
    what: &'static str,
    find: &'static str,
    right: &'static str,
    longest: Option<Longest>,
}

enum Longest {
    Lease,
    Farthest,
}

macro_rules! repair {
    ($what:literal, $name:literal, $longest:expr) => {
        Repair {
            what: $what,
            find: include_str!(concat!("sql/skewed_", $name, ".sql")),
            right: include_str!(concat!("sql/repair_", $name, ".sql")),
            longest: $longest,
        }
    };
}

const REPAIRS: [Repair; 8] = [
    repair!("unblock.unblock_at", "unblocks", None),
    repair!("rate_log.at", "rates", None),
    repair!("external_job.lease_until", "leases", Some(Longest::Lease)),
    repair!("job.options.expires", "lives", Some(Longest::Farthest)),
    repair!("blocked_job.options.expires", "blocked_lives", Some(Longest::Farthest)),
    repair!("timer_job.options.expires", "timer_lives", Some(Longest::Farthest)),
    repair!("timer_job.due_at", "retries", Some(Longest::Farthest)),
    repair!("unique_key.expires_at", "uniques", Some(Longest::Farthest)),
];

impl Shared {
    /// Checks on a reader first, so that finding nothing takes no write lock.
    pub(super) async fn repair_clock(&self) -> Result<Vec<SkewedRows>> {
        let tried = "repaired what a wrong clock wrote";
        let find = |connection: &Connection, now: Micros| {
            let found = REPAIRS.iter().filter_map(|repair| repair.find(connection, now).transpose());
            found.collect::<rusqlite::Result<Vec<SkewedRows>>>()
        };
        if self.check(tried, move |connection, now| Ok(find(connection, now)?)).await?.is_empty() {
            return Ok(Vec::new());
        }
        self.write(tried, move |connection, now| {
            let found = find(connection, now)?;
            for repair in &REPAIRS {
                repair.repair_clock(connection, now)?;
            }
            Ok(found)
        })
        .await
    }

    pub(super) async fn clock_skew(&self) -> Result<Vec<SkewedRows>> {
        self.query("look for what lies ahead of the clock", |connection, now| {
            let mut statement = connection.prepare_cached(CLOCK_SKEW)?;
            let params = named_params! { ":now": now, ":hold": micros(MAX_HIDDEN) };
            let rows = statement.query_map(params, |row| Ok((row.get("what")?, row.get("n")?, row.get("far")?)))?;
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

impl Repair {
    fn with_params<T>(&self, now: Micros, run: impl FnOnce(&[(&str, &dyn ToSql)]) -> T) -> T {
        match self.longest {
            None => run(named_params! { ":now": now }),
            Some(Longest::Lease) => run(named_params! { ":now": now, ":longest": micros(LONGEST_LEASE) }),
            Some(Longest::Farthest) => run(named_params! { ":now": now, ":longest": count(FARTHEST) }),
        }
    }

    fn find(&self, connection: &Connection, now: Micros) -> rusqlite::Result<Option<SkewedRows>> {
        let mut statement = connection.prepare_cached(self.find)?;
        let (rows, farthest): (i64, Micros) =
            self.with_params(now, |params| statement.query_row(params, |row| Ok((row.get("n")?, row.get("far")?))))?;
        Ok((rows > 0).then(|| ahead(self.what, rows, farthest)))
    }

    fn repair_clock(&self, connection: &Connection, now: Micros) -> rusqlite::Result<usize> {
        let mut statement = connection.prepare_cached(self.right)?;
        self.with_params(now, |params| statement.execute(params))
    }
}

fn ahead(what: &str, rows: i64, farthest: Micros) -> SkewedRows {
    let farthest = Duration::from_micros(farthest.max(0).unsigned_abs());
    SkewedRows { what: what.to_owned(), rows: rows.unsigned_abs(), farthest }
}
