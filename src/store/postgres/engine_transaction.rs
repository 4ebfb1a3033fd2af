//! Several statements of the engine in one transaction.

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};
use tokio_postgres::{Error as PgError, Row};

use super::client::{ConnectionLease, Params, query};
use super::driver_error::stale_statement;
use super::error::{ErrorContext, lost_connection};
use super::pool::ENGINE_CONNECTIONS;
use super::shared::Shared;
use super::statements::Statement;
use crate::error::Result;

/// An open transaction on an engine connection, within the deadline of one call. If it is dropped before its end, the connection is closed
/// and the server rolls back.
pub(super) struct EngineTransaction {
    lease: ConnectionLease,
    shared: Arc<Shared>,
    deadline: Instant,
    what: &'static str,
}

impl EngineTransaction {
    pub(super) async fn begin(shared: &Arc<Shared>, what: &'static str) -> Result<Self> {
        Self::open(shared, what, "begin").await
    }

    /// Begins, and in the same round trip runs a statement without parameters whose answer does not matter, such as taking a lock. A frozen
    /// process then does not hold that lock for longer than 15 s.
    pub(super) async fn begin_with(shared: &Arc<Shared>, what: &'static str, first: &Statement) -> Result<Self> {
        Self::open(
            shared,
            what,
            &format!("begin; set local idle_in_transaction_session_timeout = 15000; {}", first.sql),
        )
        .await
    }

    /// Begins a transaction whose statements are planned for their actual values.
    pub(super) async fn begin_planned(shared: &Arc<Shared>, what: &'static str) -> Result<Self> {
        Self::open(shared, what, "begin; set local plan_cache_mode = force_custom_plan").await
    }

    /// Replaces a connection that turns out to be dead: nothing has happened yet.
    async fn open(shared: &Arc<Shared>, what: &'static str, opening: &str) -> Result<Self> {
        let mut spares = ENGINE_CONNECTIONS;
        loop {
            let object = shared.client(&shared.engine, ErrorContext { what, label: &shared.label }).await?;
            let deadline = Instant::now() + shared.call_timeout;
            let transaction =
                Self { lease: ConnectionLease::new(object, shared), shared: shared.clone(), deadline, what };
            match transaction.command(opening).await {
                Ok(()) => return Ok(transaction),
                Err(error) if lost_connection(&error) && spares > 0 => spares -= 1,
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) async fn query(&self, statement: &Statement, params: Params<'_>) -> Result<Vec<Row>> {
        self.answer(statement, params).await?.map_err(|error| self.context().explain_engine(error))
    }

    /// Returns the server's answer. A statement that no longer fits the schema is prepared again next time.
    pub(super) async fn answer(&self, statement: &Statement, params: Params<'_>) -> Result<Result<Vec<Row>, PgError>> {
        let answer = timeout_at(self.deadline, query(self.lease.client()?, &self.shared, statement, params))
            .await
            .map_err(|_| self.context().timeout(self.shared.call_timeout))?;
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
        let alone = self.lease.client()?.info.stands_alone();
        self.lease.finish();
        if alone { Err(self.context().stands_alone()) } else { Ok(()) }
    }

    pub(super) async fn roll_back(mut self) -> Result<()> {
        self.command("rollback").await?;
        self.lease.finish();
        Ok(())
    }

    fn context(&self) -> ErrorContext<'_> {
        ErrorContext { what: self.what, label: &self.shared.label }
    }

    async fn command(&self, command: &str) -> Result<()> {
        let context = self.context();
        let conn = self.lease.client()?;
        let answer = timeout_at(self.deadline, conn.batch_execute(command))
            .await
            .map_err(|_| context.timeout(self.shared.call_timeout))?;
        answer.map_err(|error| {
            self.shared.heed(conn, &error);
            context.explain_engine(error)
        })
    }
}

impl Shared {
    /// Runs a statement in a transaction that is rolled back: whether it would fail, and why.
    pub(super) async fn rehearse(
        self: &Arc<Self>,
        what: &'static str,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<()> {
        let batch = EngineTransaction::begin(self, what).await?;
        let answer = batch.answer(statement, params).await?;
        batch.roll_back().await?;
        answer.map(drop).map_err(|error| ErrorContext { what, label: &self.label }.explain_engine(error))
    }

    /// Like [`engine`](Self::engine), for statements with a filter. Most filter fields are unset, and only a plan for the actual values can
    /// leave those out and use an index for the rest.
    pub(super) async fn engine_filtered(
        self: &Arc<Self>,
        what: &'static str,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<Vec<Row>> {
        let mut batch = EngineTransaction::begin_planned(self, what).await?;
        let mut answer = batch.answer(statement, params).await?;
        if answer.as_ref().is_err_and(stale_statement) {
            batch.roll_back().await?;
            batch = EngineTransaction::begin_planned(self, what).await?;
            answer = batch.answer(statement, params).await?;
        }
        let rows = answer.map_err(|error| ErrorContext { what, label: &self.label }.explain_engine(error))?;
        batch.commit().await?;
        Ok(rows)
    }
}
