//! One connection for one call: prepares or not as the pooler allows, and never outlives its deadline.

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error as PgError, Row};

use super::Shared;
use super::batch::Batch;
use super::cancel::cancel;
use super::connect::Conn;
use super::error::{Doing, lost_connection, stale_statement, unanswered};
use super::pool::{ENGINE_CONNECTIONS, Object, Pool};
use super::statements::Statement;
use crate::error::{Error, Result};

pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Runs a statement on any client: named and cached, or unnamed where a pooler may change the session in between.
pub(super) async fn query(
    client: &Conn,
    pgbouncer: bool,
    statement: &Statement,
    params: Params<'_>,
) -> Result<Vec<Row>, PgError> {
    if pgbouncer {
        let typed: Vec<_> = params.iter().copied().zip(statement.types.iter().cloned()).collect();
        client.query_typed(&statement.sql, &typed).await
    } else {
        let prepared = client.prepare_typed_cached(&statement.sql, statement.types).await?;
        client.query(&prepared, params).await
    }
}

impl Shared {
    /// Takes a connection of a pool. The pool itself bounds each step (waiting for one, each server when one is made), and says which
    /// took too long. It only notices a dead connection when that is used, so this answers for the connection, not for the server.
    pub(super) async fn client(&self, pool: &Pool, doing: Doing<'_>) -> Result<Object> {
        pool.get().await.map_err(|e| doing.explain_pool(e, pool.status().max_size))
    }

    /// Runs one statement of the engine in a transaction of its own, within the deadline. Only for statements that may be
    /// repeated: a connection that turns out to be dead is replaced as often as there are connections.
    pub(super) async fn engine(
        self: &Arc<Self>,
        what: &'static str,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<Vec<Row>> {
        self.engine_call(what, statement, params, ENGINE_CONNECTIONS).await
    }

    /// The same for statements whose answer matters: after a lost connection only the caller knows what to do.
    pub(super) async fn engine_once(
        self: &Arc<Self>,
        what: &'static str,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<Vec<Row>> {
        self.engine_call(what, statement, params, 0).await
    }

    /// The same for statements that must not be repeated and are commits of their own: if their connection is lost, or their answer
    /// does not come in time, nobody knows whether they took effect.
    pub(super) async fn engine_commit(
        self: &Arc<Self>,
        what: &'static str,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<Vec<Row>> {
        let doing = Doing { what, place: &self.place };
        let client = self.client(&self.engine, doing).await?;
        let deadline = Instant::now() + self.call_timeout;
        self.query_once(client, deadline, doing, statement, params)
            .await
            .map_err(|error| if unanswered(&error) { doing.commit_unknown(error) } else { error })
    }

    /// The same for statements with a filter: most of it is not asked for, and only a plan for the very values can leave that out and
    /// use an index for the rest.
    pub(super) async fn engine_filtered(
        self: &Arc<Self>,
        what: &'static str,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<Vec<Row>> {
        let mut batch = Batch::begin_planned(self, what).await?;
        let mut answer = batch.answer(statement, params).await?;
        if answer.as_ref().is_err_and(stale_statement) {
            batch.roll_back().await?;
            batch = Batch::begin_planned(self, what).await?;
            answer = batch.answer(statement, params).await?;
        }
        let rows = answer.map_err(|error| Doing { what, place: &self.place }.explain(error))?;
        batch.commit().await?;
        Ok(rows)
    }

    async fn engine_call(
        self: &Arc<Self>,
        what: &'static str,
        statement: &Statement,
        params: Params<'_>,
        mut spares: usize,
    ) -> Result<Vec<Row>> {
        let doing = Doing { what, place: &self.place };
        loop {
            let client = self.client(&self.engine, doing).await?;
            let deadline = Instant::now() + self.call_timeout;
            match self.query_once(client, deadline, doing, statement, params).await {
                Err(error) if lost_connection(&error) && spares > 0 => spares -= 1,
                other => return other,
            }
        }
    }

    async fn query_once(
        self: &Arc<Self>,
        client: Object,
        deadline: Instant,
        doing: Doing<'_>,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<Vec<Row>> {
        let mut lease = Lease::new(client, self);
        // It commits by itself, and nobody hears when it begins to.
        lease.committing();
        let mut answer = timeout_at(deadline, query(lease.client()?, self.pgbouncer, statement, params)).await;
        if let Ok(Err(error)) = &answer
            && stale_statement(error)
        {
            self.forget_statements(lease.client()?);
            answer = timeout_at(deadline, query(lease.client()?, self.pgbouncer, statement, params)).await;
        }
        match answer {
            Ok(Ok(_)) if lease.client()?.line.stands_alone() => {
                lease.finish();
                Err(doing.stands_alone())
            }
            Ok(Ok(rows)) => {
                lease.finish();
                Ok(rows)
            }
            Ok(Err(error)) => {
                self.heed(lease.client()?, &error);
                lease.finish();
                Err(doing.explain(error))
            }
            Err(_) => Err(doing.timeout(self.call_timeout)),
        }
    }
}

/// A connection with a statement under way. Dropped before the answer came (deadline, cancelled caller), the connection is
/// thrown away and the server told to stop, unless it may be committing: the next user must not wait behind somebody else's statement.
pub(super) struct Lease {
    object: Option<Object>,
    committing: bool,
    shared: Arc<Shared>,
}

impl Lease {
    pub(super) fn new(object: Object, shared: &Arc<Shared>) -> Self {
        Self { object: Some(object), committing: false, shared: shared.clone() }
    }

    /// From now on it may be committing.
    pub(super) fn committing(&mut self) {
        self.committing = true;
    }

    pub(super) fn client(&self) -> Result<&Conn> {
        match &self.object {
            Some(object) => Ok(object),
            None => Err(Error::new(crate::ErrorKind::Unreachable, "the connection was given up")),
        }
    }

    /// It is idle again.
    pub(super) fn finish(&mut self) {
        if let Some(object) = self.object.take() {
            self.shared.give_back(object);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        match self.object.take() {
            Some(object) if self.committing => drop(Object::take(object)),
            Some(object) => self.shared.abandon(object),
            None => {}
        }
    }
}

impl Shared {
    /// Removes a connection from its pool and asks the server to cancel what runs on it, without waiting for either. Never one that
    /// may be committing.
    pub(super) fn abandon(self: &Arc<Self>, object: Object) {
        let (token, place) = (object.cancel_token(), object.line.place.clone());
        drop(Object::take(object));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(cancel(token, place, self.target.tls()));
        }
    }

    /// Statements no longer fit the schema: they are prepared anew, on this connection at once.
    pub(super) fn forget_statements(&self, conn: &Conn) {
        conn.statement_cache.clear();
        self.engine.manager().forget_statements();
    }
}
