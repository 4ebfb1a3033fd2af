//! Server access for the test kit.

use std::time::Duration;

use tokio::time::timeout;

use super::connect::Target;
use super::database::Postgres;
use super::error::ErrorContext;
use super::migrate;
use super::server::ServerLabel;
use crate::config::DatabaseConfig;
use crate::error::Result;
use crate::store::migration::later;
use crate::store::{Migration, MigrationStatus};

/// The time limit for creating or dropping a schema while others do the same.
const PATIENCE: Duration = Duration::from_secs(60);

impl Postgres {
    pub(crate) async fn migrate_with(&self, more: &[Migration]) -> Result<Vec<MigrationStatus>> {
        migrate::migrate(&self.0, &later(migrate::MIGRATIONS, more)).await
    }

    pub(crate) async fn travel(&self, by: Duration) -> Result<()> {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.0.engine("move timers", &self.0.sql.travel, &[&by]).await.map(drop)
    }
}

/// Runs SQL on a separate connection, and returns the first column of the answer.
pub(crate) async fn execute(config: &DatabaseConfig, what: &'static str, sql: &str) -> Result<Vec<String>> {
    let label = ServerLabel::unwatched(config);
    let context = ErrorContext { what, label: &label };
    let target = Target::new(config)?;
    let connecting = Box::pin(target.connect(None, None));
    let client = connecting.await.map_err(|failures| context.explain_failures(failures))?;
    let answer = timeout(PATIENCE, client.simple_query(sql)).await.map_err(|_| context.timeout(PATIENCE))?;
    let answer = answer.map_err(|e| context.explain(e))?;
    let first = |part| match part {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    Ok(answer.into_iter().filter_map(first).collect())
}
