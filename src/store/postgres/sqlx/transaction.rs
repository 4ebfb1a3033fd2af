//! The transaction that a context gives to its user.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::time::timeout;

use super::TransactionManager as _;
use super::driver::{SqlxConnection, explain};
use super::lent::SqlxTransactionRef;
use super::probed::{Probed, depth};
use super::sqlx::pool::PoolConnection;
use super::sqlx::{self, Database, PgConnection};
use crate::conflict::sqlx_code;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{ClaimNumber, Fence, NodeId};
use crate::store::postgres::commit_status::{Evidence, resolve};
use crate::store::postgres::error::ErrorContext;
use crate::store::postgres::held::{BEGIN_ALONE, LEFT_OPEN, is_open_already};
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
struct Uncertain {
    connection: Option<PoolConnection<sqlx::Postgres>>,
    runtime: Handle,
}

impl Uncertain {
    fn certain(mut self) -> Option<PoolConnection<sqlx::Postgres>> {
        self.connection.take()
    }

    /// Rolls back, and gives the connection back to its pool. The savepoints that the application has left open end too. If sqlx has ended the transaction
    /// itself, by a `begin` that failed or was cancelled, the answer to that has not come, and may be late: then the connection is closed.
    async fn roll_back(mut self, shared: &Shared) -> Result<()> {
        let Some(open) = &mut self.connection else { return Ok(()) };
        if depth(open) == 0 {
            return Ok(());
        }
        let context = ErrorContext { what: "roll back", label: &shared.label };
        let all = async {
            while depth(open) > 0 {
                Manager::rollback(open).await?;
            }
            Ok(())
        };
        timeout(shared.call_timeout, all)
            .await
            .map_err(|_| context.timeout(shared.call_timeout))?
            .map_err(|error| explain(context, error))?;
        drop(self.certain());
        Ok(())
    }
}

impl Drop for Uncertain {
    fn drop(&mut self) {
        if let Some(mut connection) = self.connection.take() {
            connection.close_on_drop();
            // sqlx closes it on a task.
            let _runtime = self.runtime.enter();
            drop(connection);
        }
    }
}

impl SqlxTransaction {
    pub(super) async fn begin(shared: &Arc<Shared>, pool: &sqlx::PgPool) -> Result<Self> {
        let context = ErrorContext { what: "begin a transaction", label: &shared.label };
        let runtime = Handle::try_current()
            .map_err(|_| Error::config("a transaction of sqlx is begun from inside a tokio runtime"))?;
        let mut spares = pool.options().get_max_connections();
        loop {
            let acquired = timeout(shared.call_timeout, pool.acquire()).await.unwrap_or(Err(sqlx::Error::PoolTimedOut));
            let acquired = acquired.map_err(|error| explain(context, error).keeping_nothing())?;
            let begun = Instant::now();
            let mut connection = Uncertain { connection: Some(acquired), runtime: runtime.clone() };
            let Some(acquired) = &mut connection.connection else { return Err(context.timeout(shared.call_timeout)) };
            // If this is cancelled or late, the connection may be left in a transaction of which the pool knows nothing.
            let answer = timeout(shared.call_timeout, Manager::begin(acquired, Some(super::begin(BEGIN_ALONE))))
                .await
                .map_err(|_| context.timeout(shared.call_timeout).keeping_nothing())?;
            match answer {
                Ok(()) => {
                    let (open, evidence, probed) = (connection.certain(), Evidence::default(), Probed::default());
                    return Ok(Self { open, shared: shared.clone(), begun, evidence, probed, runtime });
                }
                Err(error) if spares > 0 && sqlx_code(&error).is_some_and(|code| is_open_already(&code)) => {
                    tracing::warn!("{LEFT_OPEN}");
                    spares -= 1;
                }
                Err(error) => return Err(explain(context, error).keeping_nothing()),
            }
        }
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
        let mut connection = Uncertain { connection: self.open.take(), runtime: self.runtime.clone() };
        let Some(open) = &mut connection.connection else { return Err(over(&self.shared)) };
        let context = ErrorContext { what: "commit", label: &self.shared.label };
        let error = match timeout(self.shared.call_timeout, Manager::commit(open)).await {
            Ok(Ok(())) => {
                drop(connection.certain());
                return Ok(());
            }
            Ok(Err(error)) => explain(context, error),
            Err(_) => context.timeout(self.shared.call_timeout),
        };
        match error.kind() {
            ErrorKind::Unreachable | ErrorKind::Timeout => {
                // It may still be committing, and no other user may wait behind that.
                drop(connection);
                resolve(&self.shared, std::mem::take(&mut self.evidence), self.begun, error).await
            }
            // The server answered, so no commit is in progress any more, and it has rolled back. sqlx still counts the transaction.
            _ => {
                if let Err(why) = connection.roll_back(&self.shared).await {
                    tracing::debug!(error = %why, "a connection of sqlx is closed");
                }
                Err(error)
            }
        }
    }

    async fn rollback(mut self) -> Result<()> {
        let connection = Uncertain { connection: self.open.take(), runtime: self.runtime.clone() };
        connection.roll_back(&self.shared).await
    }
}

impl Drop for SqlxTransaction {
    /// sqlx would roll back when the connection is used again, and would wait for that without a limit, behind a statement that still runs.
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        let connection = Uncertain { connection: Some(open), runtime: self.runtime.clone() };
        if self.probed.is_lost() {
            return;
        }
        let shared = self.shared.clone();
        self.runtime.spawn(async move {
            if let Err(error) = connection.roll_back(&shared).await {
                tracing::debug!(%error, "a connection of sqlx is closed");
            }
        });
    }
}
