//! What the test kit needs from a server.

use std::time::Duration;

use tokio::time::timeout;

use super::Postgres;
use super::connect::Target;
use super::error::Doing;
use super::server::Server;
use crate::config::DatabaseConfig;
use crate::error::Result;

/// How long making or dropping a schema may take, while others do the same.
const PATIENCE: Duration = Duration::from_secs(60);

impl Postgres {
    pub(crate) async fn travel(&self, by: Duration) -> Result<()> {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.0.engine("move timers", &self.0.sql.travel, &[&by]).await.map(drop)
    }
}

/// Runs SQL on a connection of its own, and returns the first column of what it answers.
pub(crate) async fn execute(config: &DatabaseConfig, what: &'static str, sql: &str) -> Result<Vec<String>> {
    let place = Server::unwatched(config);
    let doing = Doing { what, place: &place };
    let target = Target::new(config)?;
    let connecting = Box::pin(target.connect(None, None));
    let client = connecting.await.map_err(|failures| doing.explain_failures(failures))?;
    let answer = timeout(PATIENCE, client.simple_query(sql)).await.map_err(|_| doing.timeout(PATIENCE))?;
    let answer = answer.map_err(|e| doing.explain(e))?;
    let first = |part| match part {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    Ok(answer.into_iter().filter_map(first).collect())
}
