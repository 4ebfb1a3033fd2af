//! Several statements of the engine in one transaction.

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};
use tokio_postgres::{Error as PgError, Row};

use super::Shared;
use super::client::{Lease, Params, query};
use super::error::{Doing, lost_connection, stale_statement};
use super::pool::ENGINE_CONNECTIONS;
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
        Self::open(shared, what, "begin").await
    }

    /// Begins, and runs a statement without parameters whose answer does not matter, such as one that takes a lock: one round trip for both. A
    /// process that is frozen then does not hold that for longer than 15 s.
    pub(super) async fn begin_with(shared: &Arc<Shared>, what: &'static str, first: &Statement) -> Result<Self> {
        Self::open(
            shared,
            what,
            &format!("begin; set local idle_in_transaction_session_timeout = 15000; {}", first.sql),
        )
        .await
    }

    /// Its statements are planned for the values they are given.
    pub(super) async fn begin_planned(shared: &Arc<Shared>, what: &'static str) -> Result<Self> {
        Self::open(shared, what, "begin; set local plan_cache_mode = force_custom_plan").await
    }

    /// A connection that turns out to be dead is replaced: nothing has happened yet.
    async fn open(shared: &Arc<Shared>, what: &'static str, opening: &str) -> Result<Self> {
        let mut spares = ENGINE_CONNECTIONS;
        loop {
            let object = shared.client(&shared.engine, Doing { what, place: &shared.place }).await?;
            let deadline = Instant::now() + shared.call_timeout;
            let batch = Self { lease: Lease::new(object, shared), shared: shared.clone(), deadline, what };
            match batch.command(opening).await {
                Ok(()) => return Ok(batch),
                Err(error) if lost_connection(&error) && spares > 0 => spares -= 1,
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) async fn query(&self, statement: &Statement, params: Params<'_>) -> Result<Vec<Row>> {
        self.answer(statement, params).await?.map_err(|error| self.doing().explain(error))
    }

    /// What the server says to it. A statement that no longer fits the schema is prepared anew next time.
    pub(super) async fn answer(&self, statement: &Statement, params: Params<'_>) -> Result<Result<Vec<Row>, PgError>> {
        let answer = timeout_at(self.deadline, query(self.lease.client()?, self.shared.pgbouncer, statement, params))
            .await
            .map_err(|_| self.doing().timeout(self.shared.call_timeout))?;
        if let Err(error) = &answer {
            let conn = self.lease.client()?;
            self.shared.heed(conn, error);
            if stale_statement(error) {
                self.shared.forget_statements(conn);
            }
        }
        Ok(answer)
    }

    pub(super) async fn commit(mut self) -> Result<()> {
        self.lease.committing();
        self.command("commit").await?;
        let alone = self.lease.client()?.line.stands_alone();
        self.lease.finish();
        if alone { Err(self.doing().stands_alone()) } else { Ok(()) }
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
        let conn = self.lease.client()?;
        let answer = timeout_at(self.deadline, conn.batch_execute(command))
            .await
            .map_err(|_| doing.timeout(self.shared.call_timeout))?;
        answer.map_err(|error| {
            self.shared.heed(conn, &error);
            doing.explain(error)
        })
    }
}
