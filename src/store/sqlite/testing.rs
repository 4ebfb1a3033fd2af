//! File access for the test kit.

use std::time::Duration;

use rusqlite::named_params;

use super::database::Sqlite;
use super::migrate::MIGRATIONS;
use crate::error::Result;
use crate::store::migration::later;
use crate::store::sections::section;
use crate::store::{Migration, MigrationStatus};

const SQL: &str = include_str!("testing.sql");
const TRAVEL: &str = section(SQL, "travel");

impl Sqlite {
    pub(crate) async fn migrate_with(&self, more: &[Migration]) -> Result<Vec<MigrationStatus>> {
        // A connection runs its work on another thread, which needs them for as long as it takes. Tests have few.
        self.0.migrate(later(MIGRATIONS, more).leak()).await
    }

    pub(crate) async fn travel(&self, by: Duration) -> Result<()> {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.0
            .write("move timers", move |connection, _| {
                for statement in TRAVEL.split(';') {
                    connection.execute(statement, named_params! { ":by": by })?;
                }
                Ok(())
            })
            .await
    }
}
