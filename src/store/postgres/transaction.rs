//! The transaction a context hands to its user.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Object};
use tokio::time::{Instant, timeout};
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::types::{ToSql, Type};

use super::Shared;
use super::client::query;
use super::error::{Doing, lost_connection};
use super::insert::{Columns, header_texts};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Fence, JobMessage, NodeId};
use crate::store::{Inserted, Preclaim, UnitOfWork};

/// A commit with a question in front of it: whether there is a transaction that began before this statement. As one simple
/// query, because then all of it has the same statement timestamp, and a question that fails keeps the commit from being run.
const COMMIT: &str = "select transaction_timestamp() <> statement_timestamp(); commit";

/// An open PostgreSQL transaction. It dereferences to the driver's client, so everything that works on a
/// [`tokio_postgres::Client`] through a shared reference works here: `execute`, `query`, `prepare_cached`, `copy_in`,
/// pipelining.
///
/// Committing is the context's business, because its messages belong to the same commit: do not run `COMMIT` or `ROLLBACK`
/// by hand (`SAVEPOINT` is fine). A statement that fails aborts the transaction, and the context's commit will say so.
/// Dropped, it rolls back.
pub struct PgTransaction {
    /// `None` only after the end.
    object: Option<Object>,
    shared: Arc<Shared>,
    /// By this the server can be asked whether it committed. Statements of ours that write bring it along: what is asked for
    /// together with the commit gets lost together with its answer.
    xid: Option<String>,
}

impl PgTransaction {
    pub(super) async fn begin(shared: &Arc<Shared>) -> Result<Self> {
        let doing = Doing { what: "begin a transaction", place: &shared.place };
        // Connections may have died in the pool; each is found out by its first statement.
        let mut spares = shared.config.max_connections;
        loop {
            let object = shared.client(&shared.user, doing).await?;
            let begun = Self { object: Some(object), shared: shared.clone(), xid: None };
            let answer = match begun.client() {
                Ok(client) => timeout(shared.call_timeout, client.batch_execute("begin")).await,
                Err(error) => return Err(error),
            };
            match answer {
                Ok(Ok(())) => return Ok(begun),
                Ok(Err(error)) => {
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

    fn client(&self) -> Result<&ClientWrapper> {
        self.object.as_deref().ok_or_else(|| Error::new(ErrorKind::Unreachable, "the transaction is over"))
    }

    async fn run(
        &self,
        what: &'static str,
        statement: &super::statements::Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<tokio_postgres::Row>> {
        let doing = Doing { what, place: &self.shared.place };
        timeout(self.shared.call_timeout, query(self.client()?, self.shared.pgbouncer, statement, params))
            .await
            .map_err(|_| doing.timeout(self.shared.call_timeout))?
            .map_err(|e| doing.explain(e))
    }
}

impl Deref for PgTransaction {
    type Target = ClientWrapper;

    /// # Panics
    /// Never: the connection is only given up by what consumes the transaction.
    fn deref(&self) -> &ClientWrapper {
        match &self.object {
            Some(object) => object,
            None => unreachable!("a transaction that has ended can't be borrowed"),
        }
    }
}

impl fmt::Debug for PgTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PgTransaction({})", self.shared.place)
    }
}

impl UnitOfWork for PgTransaction {
    async fn insert(&mut self, messages: &[JobMessage], owned: Option<&Preclaim>) -> Result<Inserted> {
        let headers = header_texts(messages);
        let columns = Columns::new(messages, &headers, owned);
        let rows = self.run("flush job messages", columns.statement(&self.shared.sql), &columns.params()).await?;
        let (inserted, xid) = columns.read(&rows)?;
        self.xid = self.xid.take().or(xid);
        Ok(inserted)
    }

    async fn remove(&mut self, node: NodeId, fence: Fence) -> Result<bool> {
        let rows = self
            .run("remove the finished job", &self.shared.sql.remove, &[&node.0, fence.id.as_uuid(), &fence.version])
            .await?;
        let Some(row) = rows.first() else { return Ok(false) };
        self.xid = Some(super::rows::get(row, 1)?);
        Ok(true)
    }

    /// `COMMIT` of an aborted transaction is answered with `ROLLBACK`, which the driver reports as success. So a probe goes in
    /// front of it, in the same round trip: in an aborted transaction it fails. It also sees whether a statement inside the
    /// transaction ended it: outside of one, a statement is as old as its transaction.
    async fn commit(mut self) -> Result<()> {
        let doing = Doing { what: "commit", place: &self.shared.place };
        let xid = self.xid.take();
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
        let committed = timeout(self.shared.call_timeout, client.simple_query(COMMIT)).await;
        let error = match committed {
            Ok(Ok(answer)) => {
                // Over: the connection goes back to its pool.
                self.object = None;
                let open =
                    answer.iter().any(|part| matches!(part, SimpleQueryMessage::Row(row) if row.get(0) == Some("t")));
                if open {
                    return Ok(());
                }
                return Err(Error::new(
                    ErrorKind::Aborted,
                    format!(
                        "the transaction on {} was over before its commit: a statement inside it ended it (COMMIT or ROLLBACK)",
                        self.shared.place
                    ),
                ));
            }
            Ok(Err(error)) => doing.explain(error),
            Err(_) => doing.timeout(self.shared.call_timeout),
        };
        match error.kind() {
            ErrorKind::Unreachable | ErrorKind::Timeout => {
                // Its answer got lost, so the connection is of no use.
                if let Some(object) = self.object.take() {
                    drop(Object::take(object));
                }
                resolve(&self.shared, xid, error).await
            }
            _ => Err(error),
        }
    }

    async fn rollback(mut self) -> Result<()> {
        let doing = Doing { what: "roll back", place: &self.shared.place };
        match timeout(self.shared.call_timeout, self.client()?.batch_execute("rollback")).await {
            Ok(Ok(())) => {
                self.object = None;
                Ok(())
            }
            Ok(Err(error)) => Err(doing.explain(error)),
            Err(_) => Err(doing.timeout(self.shared.call_timeout)),
        }
    }
}

/// Asks the server what became of a transaction whose commit was not answered.
async fn resolve(shared: &Arc<Shared>, xid: Option<String>, lost: Error) -> Result<()> {
    let unknown = |why: &str, lost: Error| {
        Error::new(
            ErrorKind::CommitUnknown,
            format!("the answer to a commit on {} got lost, and {why}: it may have committed or not", shared.place),
        )
        .with_source(lost)
    };
    let Some(xid) = xid else {
        return Err(unknown("no statement of ours had brought the transaction's id to ask for", lost));
    };
    let deadline = Instant::now() + shared.call_timeout;
    let mut delays = crate::backoff::Reconnect::new(Duration::from_secs(1));
    while Instant::now() < deadline {
        match ask(shared, &xid).await {
            Some(Fate::Committed) => return Ok(()),
            Some(Fate::Aborted) => {
                return Err(Error::new(
                    ErrorKind::Aborted,
                    format!("the connection to {} was lost during a commit; the server rolled it back", shared.place),
                )
                .with_source(lost));
            }
            // In progress: the old backend has not noticed yet.
            None => tokio::time::sleep(delays.next_delay()).await,
        }
    }
    Err(unknown("the server could not be asked in time", lost))
}

enum Fate {
    Committed,
    Aborted,
}

async fn ask(shared: &Arc<Shared>, xid: &str) -> Option<Fate> {
    let doing = Doing { what: "ask for a commit", place: &shared.place };
    let client = shared.client(&shared.engine, doing).await.ok()?;
    let rows = timeout(
        shared.call_timeout,
        client.query_typed("select pg_xact_status($1::text::xid8)", &[(&xid, Type::TEXT)]),
    )
    .await
    .ok()?
    .ok()?;
    match rows.first()?.get::<_, Option<&str>>(0)? {
        "committed" => Some(Fate::Committed),
        "aborted" => Some(Fate::Aborted),
        _ => None,
    }
}

impl Drop for PgTransaction {
    /// Rolls back in the background and gives the connection back. If a statement is still under way (its future was
    /// dropped), the connection is given up instead: nobody should wait behind it.
    fn drop(&mut self) {
        let Some(object) = self.object.take() else {
            return;
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            drop(Object::take(object));
            return;
        };
        let shared = self.shared.clone();
        runtime.spawn(async move {
            match timeout(Duration::from_millis(500), object.batch_execute("rollback")).await {
                Ok(Ok(())) => drop(object),
                _ => shared.abandon(object),
            }
        });
    }
}
