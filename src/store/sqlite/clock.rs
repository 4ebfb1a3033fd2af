//! Repairs what a clock that ran ahead wrote: see `store::clock`.

use std::sync::LazyLock;
use std::time::Duration;

use rusqlite::{Connection, ToSql, named_params};

use super::rows::{Micros, count, micros};
use super::shared::Shared;
use super::statements::render;
use crate::error::Result;
use crate::job::LONGEST_LEASE;
use crate::store::clock::FARTHEST;
use crate::store::sections::section;
use crate::store::{MAX_HIDDEN, SkewedRows};

const SQL: &str = include_str!("clock.sql");
const CLOCK_SKEW: &str = section(SQL, "clock_skew");

/// A repair: its name, the statements that find its rows and set them right, and the limit that these use, if any.
struct Repair {
    what: &'static str,
    find: String,
    right: String,
    longest: Option<Micros>,
}

macro_rules! repair {
    ($what:literal, $find:expr, $right:expr, $longest:expr) => {
        Repair {
            what: $what,
            find: render(&section(SQL, "find").replace("{skewed}", $find)),
            right: render(&$right.replace("{skewed}", $find)),
            longest: $longest,
        }
    };
}

static REPAIRS: LazyLock<[Repair; 6]> = LazyLock::new(|| {
    let farthest = Some(count(FARTHEST));
    let lease = Some(micros(LONGEST_LEASE));
    [
        repair!("unblock.unblock_at", section(SQL, "skewed_unblocks"), section(SQL, "repair_unblocks"), None),
        repair!("rate_log.at", section(SQL, "skewed_rates"), section(SQL, "repair_rates"), None),
        repair!("job.lease_until", section(SQL, "skewed_leases"), section(SQL, "repair_leases"), lease),
        repair!("job.options.expires", section(SQL, "skewed_lives"), section(SQL, "repair_lives"), farthest),
        repair!("job.due_at", section(SQL, "skewed_retries"), section(SQL, "repair_retries"), farthest),
        repair!("unique_key.expires_at", section(SQL, "skewed_uniques"), section(SQL, "repair_uniques"), farthest),
    ]
});

impl Shared {
    /// Checks on a reader first, so that finding nothing takes no write lock.
    pub(super) async fn repair_clock(&self) -> Result<Vec<SkewedRows>> {
        let tried = "repaired timestamps that a wrong clock wrote";
        let find = |connection: &Connection, now: Micros| {
            let found = REPAIRS.iter().filter_map(|repair| repair.find(connection, now).transpose());
            found.collect::<rusqlite::Result<Vec<SkewedRows>>>()
        };
        if self.check(tried, move |connection, now| Ok(find(connection, now)?)).await?.is_empty() {
            return Ok(Vec::new());
        }
        self.write(tried, move |connection, now| {
            let found = find(connection, now)?;
            for repair in REPAIRS.iter() {
                repair.repair_clock(connection, now)?;
            }
            Ok(found)
        })
        .await
    }

    /// Looks at so many rows of each sort.
    pub(super) async fn clock_skew(&self, limit: i64) -> Result<Vec<SkewedRows>> {
        self.query("look for timestamps ahead of the clock", move |connection, now| {
            let mut statement = connection.prepare_cached(CLOCK_SKEW)?;
            let params = named_params! { ":now": now, ":hold": micros(MAX_HIDDEN), ":limit": limit };
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
            Some(longest) => run(named_params! { ":now": now, ":longest": longest }),
        }
    }

    fn find(&self, connection: &Connection, now: Micros) -> rusqlite::Result<Option<SkewedRows>> {
        let mut statement = connection.prepare_cached(&self.find)?;
        let (rows, farthest): (i64, Micros) =
            self.with_params(now, |params| statement.query_row(params, |row| Ok((row.get("n")?, row.get("far")?))))?;
        Ok((rows > 0).then(|| ahead(self.what, rows, farthest)))
    }

    fn repair_clock(&self, connection: &Connection, now: Micros) -> rusqlite::Result<usize> {
        let mut statement = connection.prepare_cached(&self.right)?;
        self.with_params(now, |params| statement.execute(params))
    }
}

fn ahead(what: &str, rows: i64, farthest: Micros) -> SkewedRows {
    let farthest = Duration::from_micros(farthest.max(0).unsigned_abs());
    SkewedRows { what: what.to_owned(), rows: rows.unsigned_abs(), farthest }
}
