//! One connection for one call: prepares statements unless a pooler forbids it, and never outlives its deadline.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error as PgError, Row};

use super::cancel::cancel;
use super::conn::Conn;
use super::driver_error::{role_changed, stale_statement};
use super::error::{ErrorContext, lost_connection, unanswered};
use super::held::Held;
use super::pool::{ENGINE_CONNECTIONS, Object, Pool, close_idle};
use super::shared::Shared;
use super::statements::Statement;
use crate::error::{Error, Result};

/// How long a statement waits before the log says what it waits for, if that is a lock.
pub(super) const LONG: Duration = Duration::from_secs(2);

pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Runs a statement on any client. If it waits for a lock for long, the log says for whose.
pub(super) async fn query(
    client: &Conn,
    shared: &Arc<Shared>,
    statement: &Statement,
    params: Params<'_>,
) -> Result<Vec<Row>, PgError> {
    let mut answer = pin!(send(client, shared.pgbouncer, statement, params));
    tokio::select! {
        biased;
        answer = &mut answer => return answer,
        () = tokio::time::sleep(LONG) => shared.tell_holder(statement.name),
    }
    answer.await
}

/// Does the same without a word: named and cached, or unnamed where a pooler may switch sessions between statements.
pub(super) async fn send(
    client: &Conn,
    pgbouncer: bool,
    statement: &Statement,
    params: Params<'_>,
) -> Result<Vec<Row>, PgError> {
    if pgbouncer {
        let typed: Vec<_> = params.iter().copied().zip(statement.types.iter().cloned()).collect();
        client.query_typed(&statement.sql, &typed).await
    } else {
        let prepared = client.prepare_typed_cached(&statement.sql, &statement.types).await?;
        client.query(&prepared, params).await
    }
}

impl Shared {
    /// Takes a connection from a pool. The pool bounds each step (waiting for a connection, each server while connecting) and reports which
    /// one took too long. A dead connection only shows when it is used, so this vouches for the connection, not for the server.
    pub(super) async fn client(&self, pool: &Pool, context: ErrorContext<'_>) -> Result<Object> {
        let object = pool.get().await.map_err(|e| context.explain_pool(e, pool.status().max_size))?;
        [&self.engine, &self.user].into_iter().for_each(close_idle);
        Ok(object)
    }

    /// Runs one engine statement in its own transaction, within the deadline. Only for statements that may be repeated: if the connection
    /// turns out to be dead, the call retries as often as there are connections.
    pub(super) async fn engine(
        self: &Arc<Self>,
        what: &'static str,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<Vec<Row>> {
        self.engine_call(what, statement, params, ENGINE_CONNECTIONS).await
    }

    /// Like [`engine`](Self::engine), without retries: after a lost connection only the caller knows what to do.
    pub(super) async fn engine_once(
        self: &Arc<Self>,
        what: &'static str,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<Vec<Row>> {
        self.engine_call(what, statement, params, 0).await
    }

    /// Like [`engine`](Self::engine), for statements that must not be repeated and that commit on their own. If the connection is lost or
    /// the answer is late, it is unknown whether they took effect.
    pub(super) async fn engine_commit(
        self: &Arc<Self>,
        what: &'static str,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<Vec<Row>> {
        let context = ErrorContext { what, label: &self.label };
        let client = self.client(&self.engine, context).await?;
        let deadline = Instant::now() + self.call_timeout;
        self.query_once(client, deadline, context, statement, params)
            .await
            .map_err(|error| if unanswered(&error) { context.commit_unknown(error) } else { error })
    }

    async fn engine_call(
        self: &Arc<Self>,
        what: &'static str,
        statement: &Statement,
        params: Params<'_>,
        mut spares: usize,
    ) -> Result<Vec<Row>> {
        let context = ErrorContext { what, label: &self.label };
        loop {
            let client = self.client(&self.engine, context).await?;
            let deadline = Instant::now() + self.call_timeout;
            match self.query_once(client, deadline, context, statement, params).await {
                Err(error) if lost_connection(&error) && spares > 0 => spares -= 1,
                other => return other,
            }
        }
    }

    async fn query_once(
        self: &Arc<Self>,
        client: Object,
        deadline: Instant,
        context: ErrorContext<'_>,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<Vec<Row>> {
        let mut lease = ConnectionLease::new(client, self);
        // The statement commits on its own, at a time that the client does not see.
        lease.committing();
        let mut answer = timeout_at(deadline, query(lease.client()?, self, statement, params)).await;
        if let Ok(Err(error)) = &answer
            && stale_statement(error)
        {
            self.forget_statements(lease.client()?);
            answer = timeout_at(deadline, query(lease.client()?, self, statement, params)).await;
        }
        match answer {
            Ok(Ok(_)) if lease.client()?.info.stands_alone() => {
                lease.finish();
                Err(context.stands_alone())
            }
            Ok(Ok(rows)) => {
                lease.finish();
                Ok(rows)
            }
            Ok(Err(error)) => {
                self.heed(lease.client()?, &error);
                lease.finish();
                Err(context.explain_engine(error))
            }
            Err(_) => Err(context.timeout(self.call_timeout)),
        }
    }
}

/// A connection with a statement in flight. If it is dropped before the answer came (deadline, cancelled caller), the connection is closed,
/// because the next user must not wait behind that statement. The server is asked to cancel, unless the statement may be committing.
pub(super) struct ConnectionLease {
    connection: Option<Held>,
    committing: bool,
    shared: Arc<Shared>,
}

impl ConnectionLease {
    pub(super) fn new(connection: impl Into<Held>, shared: &Arc<Shared>) -> Self {
        Self { connection: Some(connection.into()), committing: false, shared: shared.clone() }
    }

    /// Marks the statement as possibly committing.
    pub(super) fn committing(&mut self) {
        self.committing = true;
    }

    pub(super) fn client(&self) -> Result<&Conn> {
        match &self.connection {
            Some(connection) => Ok(connection),
            None => Err(Error::new(crate::ErrorKind::Unreachable, "the connection was given up")),
        }
    }

    /// Returns the idle connection to its pool.
    pub(super) fn finish(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.shared.give_back(connection);
        }
    }
}

impl Drop for ConnectionLease {
    fn drop(&mut self) {
        match self.connection.take() {
            Some(connection) if self.committing => connection.close(),
            Some(connection) => self.shared.abandon(connection),
            None => {}
        }
    }
}

impl Shared {
    /// Removes a connection from its pool and asks the server to cancel its statement, without waiting for either. Never called for a
    /// connection that may be committing.
    pub(super) fn abandon(self: &Arc<Self>, connection: Held) {
        let (token, label) = (connection.cancel_token(), connection.info.endpoint.clone());
        let is_pooled = self.pgbouncer && label.is_none();
        connection.close();
        // The driver, which alone knows the server of that connection, hangs up so early that old poolers exit.
        if is_pooled {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(cancel(token, label, self.target.tls()));
        }
    }

    /// Drops cached statements that no longer fit the schema. They are prepared again: on this connection at once, on others later.
    pub(super) fn forget_statements(&self, conn: &Conn) {
        conn.statement_cache.clear();
        self.engine.manager().forget_statements();
    }

    /// Returns a connection to its pool, unless it is retired.
    pub(super) fn give_back(&self, connection: Held) {
        if self.target.is_retired(&connection.info) {
            connection.close();
        }
    }

    /// Reacts to a server error: if the server's role has changed or it is shutting down, drops all idle connections to it.
    /// If a cached statement is gone on the server, because a handler deallocated all, drops those of this connection.
    pub(super) fn heed(&self, conn: &Conn, error: &tokio_postgres::Error) {
        if stale_statement(error) {
            conn.statement_cache.clear();
        }
        if !role_changed(error) || !self.target.retire(&conn.info) {
            return;
        }
        for pool in [&self.user, &self.engine] {
            pool.retain(|pooled, _| !self.target.is_retired(&pooled.info));
        }
    }
}
