//! What the test kit needs from a file.

use std::time::Duration;

use rusqlite::named_params;

use super::Sqlite;
use crate::error::Result;

const TRAVEL: &str = include_str!("sql/travel.sql");

impl Sqlite {
    pub(crate) async fn travel(&self, by: Duration) -> Result<()> {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.inner
            .write("move timers", move |connection, _| {
                for statement in TRAVEL.split(';') {
                    connection.execute(statement, named_params! { ":by": by })?;
                }
                Ok(())
            })
            .await
    }
}
