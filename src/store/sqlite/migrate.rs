//! Schema changes, one transaction each.

use std::fmt::Write as _;
use std::time::Duration;

use rusqlite::{Connection, named_params};

use super::error::{Failure, Work};
use super::open::HAS_MIGRATIONS;
use super::rows::timestamp;
use super::shared::Shared;
use crate::error::{Error, ErrorKind, Result};
use crate::store::migration::{Applied, compare, refuse_newer, unreleased};
use crate::store::sections::section;
use crate::store::{Migration, MigrationStatus};

/// All schema changes of this store.
pub const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    name: "schema",
    min_compatible: 1,
    sql: include_str!("../../../migrations/sqlite/0001_schema.sql"),
    backfill: None,
}];

/// The time limit of one schema change, which may rewrite a large table. Waiting for the lock still has the deadline of a call.
const LONGEST: Duration = Duration::from_secs(600);

const SQL: &str = include_str!("migrate.sql");
const CREATE_MIGRATION: &str = section(SQL, "create_migration");
const APPLIED: &str = section(SQL, "applied");
const HAS_TABLES_OF_STATES: &str = section(SQL, "has_tables_of_states");
const RECORD_MIGRATION: &str = section(SQL, "record_migration");

/// Returns the same steps as a script, for a file without the tables.
pub(super) fn script() -> String {
    let mut script = format!("begin;\n{CREATE_MIGRATION};\n");
    for step in MIGRATIONS {
        let Migration { version, name, min_compatible, .. } = step;
        let checksum = step.checksum();
        let entry = format!("({version}, '{name}', '{checksum}', {min_compatible}, 1, unixepoch() * 1000000)");
        let columns = "version, name, checksum, min_compatible, is_filled, applied_at";
        let _ = writeln!(
            script,
            "\n-- migration {version} ({name})\n{}\n;insert into jobwright_migration ({columns}) values {entry};",
            step.sql
        );
    }
    script.push_str("commit;\n");
    script
}

impl Shared {
    pub(super) async fn migration_status(&self, migrations: &'static [Migration]) -> Result<Vec<MigrationStatus>> {
        let label = self.label.clone();
        self.query("read the schema version", move |connection, _| status(connection, migrations, &label)).await
    }

    pub(super) async fn migrate(&self, migrations: &'static [Migration]) -> Result<Vec<MigrationStatus>> {
        loop {
            let now = self.migration_status(migrations).await?;
            refuse_newer(&now, &self.label)?;
            if now.iter().all(|row| row.applied_at.is_some()) {
                return Ok(now);
            }
            let label = self.label.clone();
            // Checks again with the lock held: if many processes start at once, the first applies the change and the others find it done.
            self.write_for("apply a schema change", LONGEST, move |connection, now| {
                connection.execute_batch(CREATE_MIGRATION)?;
                let found = applied(connection, &label)?;
                let status = compare(migrations, &found, &label)?;
                refuse_newer(&status, &label)?;
                let missing = status.iter().find(|row| row.applied_at.is_none());
                let Some(step) = missing.and_then(|row| migrations.iter().find(|one| one.version == row.version))
                else {
                    return Ok(());
                };
                match step.backfill {
                    // Each batch is a transaction, so that others write in between.
                    Some(backfill) if found.iter().any(|row| row.version == step.version) => {
                        if connection.execute(backfill, [])? == 0 {
                            record(connection, step, true, now)?;
                        }
                    }
                    backfill => {
                        connection.execute_batch(step.sql)?;
                        record(connection, step, backfill.is_none(), now)?;
                    }
                }
                Ok(())
            })
            .await?;
        }
    }
}

fn record(connection: &Connection, migration: &Migration, is_filled: bool, now: i64) -> rusqlite::Result<()> {
    connection.prepare_cached(RECORD_MIGRATION)?.execute(named_params! {
        ":version": migration.version, ":name": migration.name, ":checksum": migration.checksum(),
        ":min_compatible": migration.min_compatible, ":is_filled": is_filled, ":now": now,
    })?;
    Ok(())
}

fn status(connection: &Connection, migrations: &[Migration], label: &str) -> Work<Vec<MigrationStatus>> {
    Ok(compare(migrations, &applied(connection, label)?, label)?)
}

/// The error for a file that has a table for each state of a job.
fn earlier(label: &str) -> Error {
    Error::new(
        ErrorKind::Schema,
        format!(
            "{label} was made by an earlier build, with a table for each state of a job, and this build can't upgrade it: export its jobs with the \
             build that made it, or let that build finish them; then move the file away, run `jobwright migrate`, and send the jobs again \
             (docs/upgrading.md)"
        ),
    )
}

/// Reads what was applied; nothing without tables.
fn applied(connection: &Connection, label: &str) -> Work<Vec<Applied>> {
    let exists = |sql| connection.prepare_cached(sql)?.query_row([], |row| row.get::<_, bool>(0));
    if !exists(HAS_MIGRATIONS)? {
        return Ok(Vec::new());
    }
    if exists(HAS_TABLES_OF_STATES)? {
        return Err(earlier(label).into());
    }
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Applied {
            version: row.get("version")?,
            name: row.get("name")?,
            checksum: row.get("checksum")?,
            at: timestamp(row.get("applied_at")?)?,
            min_compatible: row.get("min_compatible")?,
            is_filled: row.get("is_filled")?,
        })
    };
    let rows =
        || -> rusqlite::Result<Vec<Applied>> { connection.prepare_cached(APPLIED)?.query_map([], read)?.collect() };
    rows().map_err(|error| {
        let is_old = error.to_string().contains("no such column");
        if is_old { Failure::from(unreleased(label)) } else { error.into() }
    })
}
