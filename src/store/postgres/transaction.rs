//! The transaction that a context gives to its user.

use std::fmt;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Statement};

use super::client::ConnectionLease;
use super::commit_status::{Evidence, resolve};
use super::conn::Conn;
use super::driver::{Driver as _, OwnConnection};
use super::error::{ErrorContext, lost_connection};
use super::held::{Held, LEFT_OPEN, Purpose, is_open_already};
use super::in_transaction;
use super::lent::PgTransactionRef;
use super::pool::RESET_WITHIN;
use super::shared::Shared;
use super::statements::Statements;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{ClaimNumber, Fence, NodeId};
use crate::store::{GroupClaim, NewResult, Removed, UnitOfWork};

/// A commit with a check in front: a savepoint is refused where there is no transaction, and in one that is aborted. Both are one simple query, so
/// a check that fails keeps the commit from running. A query would need a plan, which takes twice as long.
const COMMIT: &str = "savepoint jobwright; commit";

/// An open PostgreSQL transaction. It dereferences to the driver's client, so everything that works on a [`tokio_postgres::Client`] through
/// a shared reference works here: `execute`, `query`, `copy_in`, pipelining. Use [`prepare_cached`](Self::prepare_cached) for statements
/// that are prepared once per connection.
///
/// What it sets in its session (`set`, temporary tables, `listen`, advisory locks of the session) ends with the transaction: the connection is reset
/// before its next user gets it. Behind a transaction pooler (`database.pgbouncer`) that is not possible, and in a pool of the application's
/// ([`Postgres::with_pool`](crate::Postgres::with_pool)) it is the pool's affair: there use `set local` and locks of the transaction.
///
/// The context commits, because its messages belong to the same commit: do not run `COMMIT` or `ROLLBACK` by hand (`SAVEPOINT` is fine). A
/// statement that fails aborts the transaction, and the context's commit reports that. Dropping the transaction rolls it back.
pub struct PgTransaction {
    /// `None` only after the end.
    held: Option<Held>,
    shared: Arc<Shared>,
    begun: std::time::Instant,
    /// Needed if the answer to COMMIT gets lost.
    evidence: Evidence,
    /// COMMIT was sent.
    committing: bool,
}

/// The end of a transaction, and the state of its session.
struct Ended {
    answer: std::result::Result<(), tokio_postgres::Error>,
    /// Whether the session is as the next user expects it.
    is_reset: bool,
}

/// Ends a transaction, and resets the session if code of others had it (`reset`). Both are sent at once, as two messages, so that the outcome of the
/// transaction is known even if the reset fails or is late. The caller waits for the reset too, for a second at most.
async fn end(shared: &Shared, conn: &Conn, statement: &str, reset: Option<&str>, within: Duration) -> Option<Ended> {
    let mut ending = pin!(timeout(within, conn.batch_execute(statement)));
    let mut resetting = pin!(async {
        match reset {
            Some(reset) => conn.batch_execute(reset).await,
            None => Ok(()),
        }
    });
    let mut reset = None;
    let answer = loop {
        tokio::select! {
            biased;
            answer = &mut ending => break answer.ok()?,
            done = &mut resetting, if reset.is_none() => reset = Some(done),
        }
    };
    let reset = match reset {
        Some(done) => Ok(done),
        None => timeout(RESET_WITHIN.min(within), resetting).await,
    };
    let is_reset = matches!(reset, Ok(Ok(())));
    if is_reset {
        conn.info.is_reset();
    } else if answer.is_ok() {
        tracing::debug!(?reset, "the session of a connection could not be reset; the connection is closed");
        if let Ok(Err(error)) = &reset {
            shared.heed(conn, error);
        }
    }
    Some(Ended { answer, is_reset })
}

/// Returns the connection of a transaction that is over to its pool, unless its session could not be reset.
fn give_back(shared: &Shared, held: Option<Held>, is_reset: bool) {
    match held {
        Some(held) if is_reset => shared.give_back(held),
        Some(held) => held.close(),
        None => {}
    }
}

impl PgTransaction {
    pub(super) async fn begin(shared: &Arc<Shared>) -> Result<Self> {
        Self::open(shared, Purpose::Context, "begin").await
    }

    /// Begins an engine transaction, which must not wait for handlers that use up the connections of contexts. It holds locks on rows that
    /// other nodes skip, so the server ends it if this process is stopped in the middle.
    pub(super) async fn begin_engine(shared: &Arc<Shared>) -> Result<Self> {
        Self::open(shared, Purpose::Engine, "begin; set local idle_in_transaction_session_timeout = 15000").await
    }

    /// Does the same for the work of several callers: it waits for a lock of another transaction for 0.3 s, and then fails.
    pub(super) async fn begin_briefly(shared: &Arc<Shared>) -> Result<Self> {
        let begin = "begin; set local idle_in_transaction_session_timeout = 15000; set local lock_timeout = 300";
        Self::open(shared, Purpose::Engine, begin).await
    }

    async fn open(shared: &Arc<Shared>, purpose: Purpose, begin: &str) -> Result<Self> {
        let context = ErrorContext { what: "begin a transaction", label: &shared.label };
        // Pooled connections may have died; the first statement shows it.
        let mut spares = shared.pool_size(purpose);
        loop {
            let held = shared.take(purpose, context).await?;
            let begun = std::time::Instant::now();
            let evidence = Evidence { endpoint: held.info.endpoint.clone(), ..Evidence::default() };
            let open = Self { held: Some(held), shared: shared.clone(), begun, evidence, committing: false };
            let client = open.client()?;
            let Ok(begun) = timeout(shared.call_timeout, client.batch_execute(open.held()?.begin(begin))).await else {
                return Err(context.timeout(shared.call_timeout));
            };
            let Err(error) = begun else { return Ok(open) };
            shared.heed(client, &error);
            let was_open = error.code().is_some_and(is_open_already);
            let error = context.explain(error);
            if was_open {
                tracing::warn!("{LEFT_OPEN}");
                open.close();
            }
            if spares == 0 || !(was_open || lost_connection(&error)) {
                return Err(error);
            }
            spares -= 1;
        }
    }

    /// Closes the connection.
    fn close(mut self) {
        if let Some(held) = self.held.take() {
            held.close();
        }
    }

    fn held(&self) -> Result<&Held> {
        self.held.as_ref().ok_or_else(|| Error::new(ErrorKind::Unreachable, "the transaction is over"))
    }

    fn client(&self) -> Result<&Conn> {
        Ok(self.held()?)
    }

    async fn end(&self, statement: &str, within: Duration) -> Result<Option<Ended>> {
        let held = self.held()?;
        Ok(end(&self.shared, held, statement, held.needed_reset().as_deref(), within).await)
    }

    /// Explains a server error, and informs the pools.
    fn explain(&self, context: ErrorContext<'_>, error: tokio_postgres::Error) -> Error {
        if let Ok(client) = self.client() {
            self.shared.heed(client, &error);
        }
        context.explain(error)
    }

    /// Returns the transaction for the statements of this store, and the facts that they collect.
    pub(super) fn driver(&mut self) -> (OwnConnection<'_>, &Statements, &mut Evidence) {
        let Some(connection) = &self.held else { unreachable!("a transaction that has ended can't be written to") };
        (OwnConnection { shared: &self.shared, connection }, &self.shared.sql, &mut self.evidence)
    }

    pub(super) async fn run(
        &mut self,
        what: &'static str,
        statement: &super::statements::Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<tokio_postgres::Row>> {
        self.driver().0.run(what, statement, params).await
    }
}

impl PgTransaction {
    /// Prepares a statement that this connection keeps for its next users.
    pub async fn prepare_cached(&self, query: &str) -> std::result::Result<Statement, tokio_postgres::Error> {
        self.connection().prepare_cached(query).await
    }

    /// Like [`prepare_cached`](Self::prepare_cached), with the types of the parameters.
    pub async fn prepare_typed_cached(
        &self,
        query: &str,
        types: &[Type],
    ) -> std::result::Result<Statement, tokio_postgres::Error> {
        self.connection().prepare_typed_cached(query, types).await
    }

    /// Returns the connection.
    ///
    /// # Panics
    /// Never: only methods that consume the transaction give up the connection.
    fn connection(&self) -> &Conn {
        match &self.held {
            Some(held) => held,
            None => unreachable!("a transaction that has ended can't be borrowed"),
        }
    }
}

impl Deref for PgTransaction {
    type Target = Client;

    fn deref(&self) -> &Client {
        let connection = self.connection();
        connection.info.lend();
        connection
    }
}

impl fmt::Debug for PgTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PgTransaction({})", self.shared.label)
    }
}

impl UnitOfWork for PgTransaction {
    type Ref<'t> = PgTransactionRef<'t>;

    fn lend(&mut self) -> PgTransactionRef<'_> {
        let Some(connection) = &self.held else { unreachable!("a transaction that has ended can't be lent") };
        PgTransactionRef::of_context(&self.shared, connection, &mut self.evidence)
    }

    async fn remove(&mut self, node: NodeId, fence: Fence) -> Result<bool> {
        let (mut driver, sql, evidence) = self.driver();
        in_transaction::remove(&mut driver, sql, evidence, node, fence).await
    }

    async fn remove_and_lease(
        &mut self,
        node: NodeId,
        fence: Fence,
        claim_next: &GroupClaim,
        claim: ClaimNumber,
    ) -> Result<Removed> {
        let (mut driver, sql, evidence) = self.driver();
        in_transaction::remove_and_lease(&mut driver, sql, evidence, (node, fence), claim_next, claim).await
    }

    async fn remove_all(&mut self, node: NodeId, fences: &[Fence]) -> Result<bool> {
        let (mut driver, sql, evidence) = self.driver();
        in_transaction::remove_all(&mut driver, sql, evidence, node, fences).await
    }

    async fn keep_result(&mut self, result: &NewResult) -> Result<()> {
        let (mut driver, sql, _) = self.driver();
        in_transaction::keep_result(&mut driver, sql, result).await
    }

    /// The server answers `COMMIT` of an aborted transaction with `ROLLBACK`, and without a transaction with a warning, and the driver reports both
    /// as success. So a check goes first, in the same round trip.
    async fn commit(mut self) -> Result<()> {
        let context = ErrorContext { what: "commit", label: &self.shared.label };
        let evidence = std::mem::take(&mut self.evidence);
        let client = self.client()?;
        if client.is_closed() {
            return Err(Error::new(
                ErrorKind::Aborted,
                format!(
                    "the connection to {} was lost before the commit was sent; nothing was kept",
                    self.shared.label
                ),
            ));
        }
        self.committing = true;
        let error = match self.end(COMMIT, self.shared.call_timeout).await? {
            Some(Ended { answer: Ok(()), is_reset }) => {
                let alone = self.client()?.info.stands_alone();
                // The transaction is over, so the connection goes back to its pool.
                give_back(&self.shared, self.held.take(), is_reset);
                return if alone { Err(context.stands_alone()) } else { Ok(()) };
            }
            Some(Ended { answer: Err(error), .. }) if error.code() == Some(&SqlState::NO_ACTIVE_SQL_TRANSACTION) => {
                Error::new(
                    ErrorKind::Aborted,
                    format!(
                        "the transaction on {} was over before its commit: a statement inside it ended it (COMMIT or ROLLBACK)",
                        self.shared.label
                    ),
                )
            }
            Some(Ended { answer: Err(error), .. }) => self.explain(context, error),
            None => context.timeout(self.shared.call_timeout),
        };
        match error.kind() {
            ErrorKind::Unreachable | ErrorKind::Timeout => {
                // The answer got lost, so the connection is useless.
                if let Some(held) = self.held.take() {
                    held.close();
                }
                resolve(&self.shared, evidence, self.begun, error).await
            }
            // The server answered, so no commit is in progress any more.
            _ => {
                self.committing = false;
                Err(error)
            }
        }
    }

    async fn rollback(mut self) -> Result<()> {
        let context = ErrorContext { what: "roll back", label: &self.shared.label };
        match self.end("rollback", self.shared.call_timeout).await? {
            Some(Ended { answer: Ok(()), is_reset }) => {
                give_back(&self.shared, self.held.take(), is_reset);
                Ok(())
            }
            Some(Ended { answer: Err(error), .. }) => Err(self.explain(context, error)),
            None => Err(context.timeout(self.shared.call_timeout)),
        }
    }
}

impl Drop for PgTransaction {
    /// Rolls back in the background and gives the connection back. If a statement is still in flight (its future was dropped), the
    /// connection is closed instead, because no one should wait behind that statement. A connection that may be committing is closed at
    /// once, and its statement is never cancelled.
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        if self.committing {
            held.close();
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            held.close();
            return;
        };
        let (shared, reset) = (self.shared.clone(), held.needed_reset());
        // If the runtime ends before the task does, the connection is closed.
        let mut lease = ConnectionLease::new(held, &shared);
        runtime.spawn(async move {
            let Ok(conn) = lease.client() else { return };
            let ended = end(&shared, conn, "rollback", reset.as_deref(), Duration::from_millis(500)).await;
            if ended.is_some_and(|ended| ended.answer.is_ok() && ended.is_reset) {
                lease.finish();
            }
        });
    }
}
