//! The transaction a context hands to its user.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, SimpleQueryMessage, Statement};
use uuid::Uuid;

use super::Shared;
use super::client::query;
use super::connect::Conn;
use super::error::{Doing, lost_connection};
use super::fate::{Evidence, resolve};
use super::lent::PgTransactionRef;
use super::pool::{Object, Pool};
use super::types::JsonParam;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{ClaimNumber, Fence, NodeId};
use crate::store::admission::group_key;
use crate::store::{GroupTurn, NewResult, Removed, UnitOfWork};

/// A commit with a question in front of it: whether there is a transaction that began before this statement. As one simple
/// query, because then all of it has the same statement timestamp, and a question that fails keeps the commit from being run.
const COMMIT: &str = "select transaction_timestamp() <> statement_timestamp(); commit";

/// An open PostgreSQL transaction. It dereferences to the driver's client, so everything that works on a
/// [`tokio_postgres::Client`] through a shared reference works here: `execute`, `query`, `copy_in`, pipelining. Statements
/// prepared once for each connection are those of [`prepare_cached`](Self::prepare_cached).
///
/// Committing is the context's business, because its messages belong to the same commit: do not run `COMMIT` or `ROLLBACK`
/// by hand (`SAVEPOINT` is fine). A statement that fails aborts the transaction, and the context's commit will say so.
/// Dropped, it rolls back.
pub struct PgTransaction {
    /// `None` only after the end.
    object: Option<Object>,
    shared: Arc<Shared>,
    begun: std::time::Instant,
    /// For the case that the answer to its COMMIT gets lost.
    evidence: Evidence,
    /// COMMIT was sent.
    committing: bool,
}

impl PgTransaction {
    pub(super) async fn begin(shared: &Arc<Shared>) -> Result<Self> {
        Self::open(shared, &shared.user, "begin").await
    }

    /// One of the engine's own, which must not wait for handlers that use up the connections of contexts. It holds locks that other
    /// nodes pass over, so the server ends it should this process be stopped in the middle.
    pub(super) async fn begin_engine(shared: &Arc<Shared>) -> Result<Self> {
        Self::open(shared, &shared.engine, "begin; set local idle_in_transaction_session_timeout = 15000").await
    }

    async fn open(shared: &Arc<Shared>, pool: &Pool, begin: &str) -> Result<Self> {
        let doing = Doing { what: "begin a transaction", place: &shared.place };
        // Connections may have died in the pool; each is found out by its first statement.
        let mut spares = pool.status().max_size;
        loop {
            let object = shared.client(pool, doing).await?;
            let begun = std::time::Instant::now();
            let evidence = Evidence { place: Some(object.line.place.clone()), ..Evidence::default() };
            let open = Self { object: Some(object), shared: shared.clone(), begun, evidence, committing: false };
            let client = open.client()?;
            match timeout(shared.call_timeout, client.batch_execute(begin)).await {
                Ok(Ok(())) => return Ok(open),
                Ok(Err(error)) => {
                    shared.heed(client, &error);
                    let error = doing.explain(error);
                    if !lost_connection(&error) || spares == 0 {
                        return Err(error);
                    }
                    spares -= 1;
                }
                Err(_) => return Err(doing.timeout(shared.call_timeout)),
            }
        }
    }

    fn client(&self) -> Result<&Conn> {
        match &self.object {
            Some(object) => Ok(object),
            None => Err(Error::new(ErrorKind::Unreachable, "the transaction is over")),
        }
    }

    /// What the server said to it, for people; and the pools hear of it.
    fn explain(&self, doing: Doing<'_>, error: tokio_postgres::Error) -> Error {
        if let Ok(client) = self.client() {
            self.shared.heed(client, &error);
        }
        doing.explain(error)
    }

    pub(super) async fn run(
        &self,
        what: &'static str,
        statement: &super::statements::Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<tokio_postgres::Row>> {
        let doing = Doing { what, place: &self.shared.place };
        timeout(self.shared.call_timeout, query(self.client()?, self.shared.pgbouncer, statement, params))
            .await
            .map_err(|_| doing.timeout(self.shared.call_timeout))?
            .map_err(|e| self.explain(doing, e))
    }
}

impl PgTransaction {
    /// A statement that this connection keeps prepared, for whoever uses it next.
    pub async fn prepare_cached(&self, query: &str) -> std::result::Result<Statement, tokio_postgres::Error> {
        self.connection().prepare_cached(query).await
    }

    /// The same, with the types of its parameters.
    pub async fn prepare_typed_cached(
        &self,
        query: &str,
        types: &[Type],
    ) -> std::result::Result<Statement, tokio_postgres::Error> {
        self.connection().prepare_typed_cached(query, types).await
    }

    /// # Panics
    /// Never: the connection is only given up by what consumes the transaction.
    fn connection(&self) -> &Conn {
        match &self.object {
            Some(object) => object,
            None => unreachable!("a transaction that has ended can't be borrowed"),
        }
    }
}

impl Deref for PgTransaction {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.connection()
    }
}

impl fmt::Debug for PgTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PgTransaction({})", self.shared.place)
    }
}

impl UnitOfWork for PgTransaction {
    type Ref<'t> = PgTransactionRef<'t>;

    fn lend(&mut self) -> PgTransactionRef<'_> {
        let Some(connection) = &self.object else { unreachable!("a transaction that has ended can't be lent") };
        PgTransactionRef::of_context(&self.shared, connection, &mut self.evidence)
    }

    async fn remove(&mut self, node: NodeId, fence: Fence) -> Result<bool> {
        let rows = self
            .run("remove the finished job", &self.shared.sql.remove, &[&node.0, fence.id.as_uuid(), &fence.version])
            .await?;
        let Some(row) = rows.first() else { return Ok(false) };
        self.evidence.xid = Some(super::rows::get(row, 1)?);
        Ok(true)
    }

    async fn remove_and_lease(
        &mut self,
        node: NodeId,
        fence: Fence,
        turn: &GroupTurn,
        claim: ClaimNumber,
    ) -> Result<Removed> {
        let (key, lease) = (group_key(&turn.group), Uuid::from(turn.lease));
        let params: [&(dyn ToSql + Sync); 6] =
            [&node.0, fence.id.as_uuid(), &fence.version, &key, &lease, &claim.as_int4()];
        let tried = "remove the finished job and go on with its group";
        let rows = self.run(tried, &self.shared.sql.remove_and_lease, &params).await?;
        let Some(row) = rows.first() else { return Ok(Removed::NotOwned) };
        self.evidence.xid = Some(super::rows::get(row, 1)?);
        Ok(if super::rows::get(row, 2)? { Removed::Leased } else { Removed::Gone })
    }

    async fn remove_all(&mut self, node: NodeId, fences: &[Fence]) -> Result<bool> {
        let (ids, versions) = super::claim::columns(fences);
        let rows = self.run("remove finished jobs", &self.shared.sql.remove_all, &[&node.0, &ids, &versions]).await?;
        if let Some(row) = rows.first() {
            self.evidence.xid = Some(super::rows::get(row, 1)?);
        }
        Ok(rows.len() == fences.len())
    }

    async fn keep_result(&mut self, result: &NewResult) -> Result<()> {
        let payload = JsonParam(result.payload.get());
        let retention = super::rows::micros(result.retention);
        let sql = &self.shared.sql.keep_result;
        self.run("keep the result of a job", sql, &[result.id.as_uuid(), &result.kind, &payload, &retention]).await?;
        Ok(())
    }

    /// `COMMIT` of an aborted transaction is answered with `ROLLBACK`, which the driver reports as success. So a probe goes in
    /// front of it, in the same round trip: in an aborted transaction it fails. It also sees whether a statement inside the
    /// transaction ended it: outside of one, a statement is as old as its transaction.
    async fn commit(mut self) -> Result<()> {
        let doing = Doing { what: "commit", place: &self.shared.place };
        let evidence = std::mem::take(&mut self.evidence);
        let client = self.client()?;
        if client.is_closed() {
            return Err(Error::new(
                ErrorKind::Aborted,
                format!(
                    "the connection to {} was lost before the commit was sent; nothing was kept",
                    self.shared.place
                ),
            ));
        }
        self.committing = true;
        let client = self.client()?;
        let committed = timeout(self.shared.call_timeout, client.simple_query(COMMIT)).await;
        let error = match committed {
            Ok(Ok(answer)) => {
                let alone = client.line.stands_alone();
                // Over: the connection goes back to its pool.
                if let Some(object) = self.object.take() {
                    self.shared.give_back(object);
                }
                let open =
                    answer.iter().any(|part| matches!(part, SimpleQueryMessage::Row(row) if row.get(0) == Some("t")));
                if open {
                    return if alone { Err(doing.stands_alone()) } else { Ok(()) };
                }
                return Err(Error::new(
                    ErrorKind::Aborted,
                    format!(
                        "the transaction on {} was over before its commit: a statement inside it ended it (COMMIT or ROLLBACK)",
                        self.shared.place
                    ),
                ));
            }
            Ok(Err(error)) => self.explain(doing, error),
            Err(_) => doing.timeout(self.shared.call_timeout),
        };
        match error.kind() {
            ErrorKind::Unreachable | ErrorKind::Timeout => {
                // Its answer got lost, so the connection is of no use.
                if let Some(object) = self.object.take() {
                    drop(Object::take(object));
                }
                resolve(&self.shared, evidence, self.begun, error).await
            }
            // Answered: nothing is being committed any more.
            _ => {
                self.committing = false;
                Err(error)
            }
        }
    }

    async fn rollback(mut self) -> Result<()> {
        let doing = Doing { what: "roll back", place: &self.shared.place };
        match timeout(self.shared.call_timeout, self.client()?.batch_execute("rollback")).await {
            Ok(Ok(())) => {
                if let Some(object) = self.object.take() {
                    self.shared.give_back(object);
                }
                Ok(())
            }
            Ok(Err(error)) => Err(self.explain(doing, error)),
            Err(_) => Err(doing.timeout(self.shared.call_timeout)),
        }
    }
}

impl Drop for PgTransaction {
    /// Rolls back in the background and gives the connection back. If a statement is still under way (its future was
    /// dropped), the connection is given up instead: nobody should wait behind it. So it is at once if it may be committing, which is
    /// never cancelled.
    fn drop(&mut self) {
        let Some(object) = self.object.take() else {
            return;
        };
        if self.committing {
            drop(Object::take(object));
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            drop(Object::take(object));
            return;
        };
        let shared = self.shared.clone();
        runtime.spawn(async move {
            match timeout(Duration::from_millis(500), object.batch_execute("rollback")).await {
                Ok(Ok(())) => shared.give_back(object),
                _ => shared.abandon(object),
            }
        });
    }
}
