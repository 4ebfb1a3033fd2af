//! Schema changes, one transaction each.

use std::time::Duration;

use rusqlite::{Connection, named_params};

use super::Inner;
use super::failure::Work;
use super::rows::timestamp;
use crate::error::Result;
use crate::store::migration::{Applied, compare, refuse_newer};
use crate::store::{Migration, MigrationStatus};

/// All schema changes of this store.
pub const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "init", sql: include_str!("../../../migrations/sqlite/0001_init.sql") },
    Migration { version: 2, name: "broker", sql: include_str!("../../../migrations/sqlite/0002_broker.sql") },
    Migration { version: 3, name: "gates", sql: include_str!("../../../migrations/sqlite/0003_gates.sql") },
    Migration { version: 4, name: "schedules", sql: include_str!("../../../migrations/sqlite/0004_schedules.sql") },
    Migration { version: 5, name: "history", sql: include_str!("../../../migrations/sqlite/0005_history.sql") },
    Migration { version: 6, name: "steering", sql: include_str!("../../../migrations/sqlite/0006_steering.sql") },
    Migration { version: 7, name: "unique", sql: include_str!("../../../migrations/sqlite/0007_unique.sql") },
    Migration { version: 8, name: "send", sql: include_str!("../../../migrations/sqlite/0008_send.sql") },
    Migration { version: 9, name: "liveness", sql: include_str!("../../../migrations/sqlite/0009_liveness.sql") },
    Migration { version: 10, name: "endings", sql: include_str!("../../../migrations/sqlite/0010_endings.sql") },
    Migration { version: 11, name: "forgetting", sql: include_str!("../../../migrations/sqlite/0011_forgetting.sql") },
    Migration { version: 12, name: "report key", sql: include_str!("../../../migrations/sqlite/0012_report_key.sql") },
];

/// What one schema change may take: it may rewrite a large table. Waiting for the lock still has the deadline of a call.
const LONGEST: Duration = Duration::from_secs(600);

const CREATE_MIGRATION: &str = include_str!("sql/create_migration.sql");
pub(super) const HAS_MIGRATIONS: &str = include_str!("sql/has_migrations.sql");
const APPLIED: &str = include_str!("sql/applied.sql");
const RECORD_MIGRATION: &str = include_str!("sql/record_migration.sql");

impl Inner {
    pub(super) async fn migration_status(&self) -> Result<Vec<MigrationStatus>> {
        let place = self.place.clone();
        self.query("read the schema version", move |connection, _| status(connection, &place)).await
    }

    pub(super) async fn migrate(&self) -> Result<Vec<MigrationStatus>> {
        loop {
            let now = self.migration_status().await?;
            refuse_newer(&now, &self.place)?;
            if now.iter().all(|row| row.applied_at.is_some()) {
                return Ok(now);
            }
            let place = self.place.clone();
            // Looks again with the lock held: of many that start at once the first applies it, the others find it done.
            self.write_for("apply a schema change", LONGEST, move |connection, now| {
                connection.execute_batch(CREATE_MIGRATION)?;
                let status = status(connection, &place)?;
                refuse_newer(&status, &place)?;
                let missing = status.iter().find(|row| row.applied_at.is_none());
                if let Some(next) = missing.and_then(|row| MIGRATIONS.iter().find(|one| one.version == row.version)) {
                    apply(connection, next, now)?;
                }
                Ok(())
            })
            .await?;
        }
    }
}

fn apply(connection: &Connection, migration: &Migration, now: i64) -> rusqlite::Result<()> {
    connection.execute_batch(migration.sql)?;
    connection.prepare_cached(RECORD_MIGRATION)?.execute(named_params! {
        ":version": migration.version, ":name": migration.name, ":checksum": migration.checksum(), ":now": now,
    })?;
    Ok(())
}

fn status(connection: &Connection, place: &str) -> Work<Vec<MigrationStatus>> {
    let exists: bool = connection.prepare_cached(HAS_MIGRATIONS)?.query_row([], |row| row.get(0))?;
    let mut applied = Vec::new();
    if exists {
        let mut statement = connection.prepare_cached(APPLIED)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            applied.push(Applied {
                version: row.get(0)?,
                name: row.get(1)?,
                checksum: row.get(2)?,
                at: timestamp(row.get(3)?)?,
            });
        }
    }
    Ok(compare(MIGRATIONS, &applied, place)?)
}
