//! Several statements of the engine in one transaction.

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;

use super::Shared;
use super::client::{Lease, Params, query};
use super::error::Doing;
use super::statements::Statement;
use crate::error::Result;

/// An open transaction on a connection of the engine, within the deadline of one call. Dropped before its end, the connection is given
/// up, and the server rolls back.
pub(super) struct Batch {
    lease: Lease,
    shared: Arc<Shared>,
    deadline: Instant,
    what: &'static str,
}

impl Batch {
    pub(super) async fn begin(shared: &Arc<Shared>, what: &'static str) -> Result<Self> {
        let deadline = Instant::now() + shared.call_timeout;
        let object = shared.client(&shared.engine, Doing { what, place: &shared.place }).await?;
        let batch = Self { lease: Lease::new(object, shared), shared: shared.clone(), deadline, what };
        batch.command("begin").await?;
        Ok(batch)
    }

    pub(super) async fn query(&self, statement: &Statement, params: Params<'_>) -> Result<Vec<Row>> {
        let doing = self.doing();
        timeout_at(self.deadline, query(self.lease.client()?, self.shared.pgbouncer, statement, params))
            .await
            .map_err(|_| doing.timeout(self.shared.call_timeout))?
            .map_err(|error| doing.explain(error))
    }

    pub(super) async fn commit(mut self) -> Result<()> {
        self.command("commit").await?;
        self.lease.finish();
        Ok(())
    }

    pub(super) async fn roll_back(mut self) -> Result<()> {
        self.command("rollback").await?;
        self.lease.finish();
        Ok(())
    }

    fn doing(&self) -> Doing<'_> {
        Doing { what: self.what, place: &self.shared.place }
    }

    async fn command(&self, command: &str) -> Result<()> {
        let doing = self.doing();
        timeout_at(self.deadline, self.lease.client()?.batch_execute(command))
            .await
            .map_err(|_| doing.timeout(self.shared.call_timeout))?
            .map_err(|error| doing.explain(error))
    }
}
