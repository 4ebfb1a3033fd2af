//! The transaction that a context gives to its user.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::time::timeout;

use super::driver::SqlxConnection;
use super::lent::SqlxTransactionRef;
use super::probed::{Probed, depth};
use super::sqlx::pool::PoolConnection;
use super::sqlx::{self, Database, PgConnection, TransactionManager as _};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{ClaimNumber, Fence, NodeId};
use crate::store::postgres::commit_status::{Evidence, resolve};
use crate::store::postgres::error::ErrorContext;
use crate::store::postgres::in_transaction;
use crate::store::postgres::shared::Shared;
use crate::store::postgres::statements::Statements;
use crate::store::{GroupClaim, NewResult, Removed, UnitOfWork};

/// sqlx's own, which counts savepoints. So a `begin` of the application is one.
type Manager = <sqlx::Postgres as Database>::TransactionManager;

/// An open transaction on a connection of the application's `PgPool`. It dereferences to sqlx's connection: pass `&mut **transaction` where sqlx takes an
/// executor, and the transaction itself where a function takes `&mut PgConnection`. Its `begin` makes a savepoint.
///
/// The context commits, because its messages belong to the same commit: do not run `COMMIT` or `ROLLBACK` by hand. A statement that fails aborts the
/// transaction, and the context's commit reports that. So does a `begin` that fails or is cancelled, by which sqlx ends the whole transaction. Dropping
/// the transaction rolls it back.
pub struct SqlxTransaction {
    /// `None` only after the end.
    open: Option<PoolConnection<sqlx::Postgres>>,
    shared: Arc<Shared>,
    begun: Instant,
    /// Needed if the answer to COMMIT gets lost.
    evidence: Evidence,
    probed: Probed,
    /// sqlx gives a connection back on a task of its own, which needs a runtime wherever the transaction is dropped.
    runtime: Handle,
}

/// A connection that is being used in a way that can't be cancelled: it is closed, and not given back, unless that ends well.
struct Uncertain(Option<PoolConnection<sqlx::Postgres>>);

impl Uncertain {
    fn certain(mut self) -> Option<PoolConnection<sqlx::Postgres>> {
        self.0.take()
    }
}

impl Drop for Uncertain {
    fn drop(&mut self) {
        if let Some(connection) = &mut self.0 {
            connection.close_on_drop();
        }
    }
}

impl SqlxTransaction {
    pub(super) async fn begin(shared: &Arc<Shared>, pool: &sqlx::PgPool) -> Result<Self> {
        let context = ErrorContext { what: "begin a transaction", label: &shared.label };
        let runtime = Handle::try_current()
            .map_err(|_| Error::config("a transaction of sqlx is begun from inside a tokio runtime"))?;
        let acquired = timeout(shared.call_timeout, pool.acquire()).await.unwrap_or(Err(sqlx::Error::PoolTimedOut));
        let acquired = acquired.map_err(|error| context.explain_sqlx(error).keeping_nothing())?;
        let begun = Instant::now();
        let mut connection = Uncertain(Some(acquired));
        let Some(acquired) = &mut connection.0 else { return Err(context.timeout(shared.call_timeout)) };
        // If this is cancelled or late, the connection may be left in a transaction of which the pool knows nothing.
        timeout(shared.call_timeout, Manager::begin(acquired, None))
            .await
            .map_err(|_| context.timeout(shared.call_timeout).keeping_nothing())?
            .map_err(|error| context.explain_sqlx(error).keeping_nothing())?;
        let open = connection.certain();
        let (evidence, probed) = (Evidence::default(), Probed::default());
        Ok(Self { open, shared: shared.clone(), begun, evidence, probed, runtime })
    }

    /// Returns the transaction for the statements of this store, and the facts that they collect, once it is certain that there still is one.
    async fn driver(&mut self) -> Result<(SqlxConnection<'_>, &Statements, &mut Evidence)> {
        let Some(connection) = &mut self.open else { return Err(over(&self.shared)) };
        let mut driver = SqlxConnection { shared: &self.shared, connection, probed: Some(&mut self.probed) };
        driver.probe().await?;
        Ok((driver, &self.shared.sql, &mut self.evidence))
    }

    /// Returns the database and its server.
    pub(super) async fn place(&mut self) -> Result<String> {
        let (mut driver, sql, _) = self.driver().await?;
        in_transaction::place(&mut driver, sql).await
    }
}

/// The error of a transaction that has ended already.
fn over(shared: &Shared) -> Error {
    Error::new(ErrorKind::Aborted, format!("the transaction on {} is over", shared.label))
}

impl Deref for SqlxTransaction {
    type Target = PgConnection;

    /// # Panics
    /// Never: only methods that consume the transaction end it.
    fn deref(&self) -> &PgConnection {
        match &self.open {
            Some(open) => open,
            None => unreachable!("a transaction that has ended can't be borrowed"),
        }
    }
}

impl DerefMut for SqlxTransaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.probed.forget();
        match &mut self.open {
            Some(open) => open,
            None => unreachable!("a transaction that has ended can't be borrowed"),
        }
    }
}

impl fmt::Debug for SqlxTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqlxTransaction({})", self.shared.label)
    }
}

impl UnitOfWork for SqlxTransaction {
    type Ref<'t> = SqlxTransactionRef<'t>;

    fn lend(&mut self) -> SqlxTransactionRef<'_> {
        let Some(open) = &mut self.open else { unreachable!("a transaction that has ended can't be lent") };
        SqlxTransactionRef::of_context(&self.shared, open, &mut self.evidence, &mut self.probed)
    }

    async fn remove(&mut self, node: NodeId, fence: Fence) -> Result<bool> {
        let (mut driver, sql, evidence) = self.driver().await?;
        in_transaction::remove(&mut driver, sql, evidence, node, fence).await
    }

    async fn remove_and_lease(
        &mut self,
        node: NodeId,
        fence: Fence,
        claim_next: &GroupClaim,
        claim: ClaimNumber,
    ) -> Result<Removed> {
        let (mut driver, sql, evidence) = self.driver().await?;
        in_transaction::remove_and_lease(&mut driver, sql, evidence, (node, fence), claim_next, claim).await
    }

    async fn remove_all(&mut self, node: NodeId, fences: &[Fence]) -> Result<bool> {
        let (mut driver, sql, evidence) = self.driver().await?;
        in_transaction::remove_all(&mut driver, sql, evidence, node, fences).await
    }

    async fn keep_result(&mut self, result: &NewResult) -> Result<()> {
        let (mut driver, sql, _) = self.driver().await?;
        in_transaction::keep_result(&mut driver, sql, result).await
    }

    /// sqlx has no way to send the probe and the commit at once, so this takes a round trip more than the engine's driver, unless our own statements have
    /// probed since the application had the transaction.
    async fn commit(mut self) -> Result<()> {
        self.driver().await?;
        let mut connection = Uncertain(self.open.take());
        let Some(open) = &mut connection.0 else { return Err(over(&self.shared)) };
        let context = ErrorContext { what: "commit", label: &self.shared.label };
        let error = match timeout(self.shared.call_timeout, Manager::commit(open)).await {
            Ok(Ok(())) => {
                drop(connection.certain());
                return Ok(());
            }
            Ok(Err(error)) => context.explain_sqlx(error),
            Err(_) => context.timeout(self.shared.call_timeout),
        };
        // It may still be committing, and nobody may wait behind that.
        drop(connection);
        match error.kind() {
            ErrorKind::Unreachable | ErrorKind::Timeout => {
                resolve(&self.shared, std::mem::take(&mut self.evidence), self.begun, error).await
            }
            // The server answered, so no commit is in progress any more.
            _ => Err(error),
        }
    }

    async fn rollback(mut self) -> Result<()> {
        let mut connection = Uncertain(self.open.take());
        let Some(open) = &mut connection.0 else { return Ok(()) };
        let context = ErrorContext { what: "roll back", label: &self.shared.label };
        let all = async {
            // Also the savepoints that the application has left open.
            while depth(open) > 0 {
                Manager::rollback(open).await?;
            }
            Ok(())
        };
        timeout(self.shared.call_timeout, all)
            .await
            .map_err(|_| context.timeout(self.shared.call_timeout))?
            .map_err(|error| context.explain_sqlx(error))?;
        drop(connection.certain());
        Ok(())
    }
}

impl Drop for SqlxTransaction {
    fn drop(&mut self) {
        let Some(mut open) = self.open.take() else { return };
        if self.probed.is_lost() {
            // sqlx would wait for its answer without a limit before it gives the connection back.
            open.close_on_drop();
        }
        while depth(&open) > 0 {
            Manager::start_rollback(&mut open);
        }
        let _runtime = self.runtime.enter();
        drop(open);
    }
}
