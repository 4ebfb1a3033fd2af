//! The transaction that a context gives to its user.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tokio::time::timeout;

use super::driver::SqlxConnection;
use super::lent::SqlxTransactionRef;
use super::sqlx::{self, PgConnection};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{ClaimNumber, Fence, NodeId};
use crate::store::postgres::commit_status::{Evidence, resolve};
use crate::store::postgres::error::ErrorContext;
use crate::store::postgres::in_transaction;
use crate::store::postgres::shared::Shared;
use crate::store::postgres::statements::Statements;
use crate::store::{GroupClaim, NewResult, Removed, UnitOfWork};

/// Refused where there is no transaction, and in one that is aborted.
const CHECK: &str = "savepoint jobwright";

/// An open transaction on a connection of the application's `PgPool`. It dereferences to sqlx's connection: pass `&mut **transaction` where sqlx takes an
/// executor, and the transaction itself where a function takes `&mut PgConnection`. Its `begin` makes a savepoint.
///
/// The context commits, because its messages belong to the same commit: do not run `COMMIT` or `ROLLBACK` by hand. A statement that fails aborts the
/// transaction, and the context's commit reports that. Dropping the transaction rolls it back.
pub struct SqlxTransaction {
    /// `None` only after the end.
    open: Option<sqlx::Transaction<'static, sqlx::Postgres>>,
    shared: Arc<Shared>,
    begun: std::time::Instant,
    /// Needed if the answer to COMMIT gets lost.
    evidence: Evidence,
}

impl SqlxTransaction {
    pub(super) async fn begin(shared: &Arc<Shared>, pool: &sqlx::PgPool) -> Result<Self> {
        let context = ErrorContext { what: "begin a transaction", label: &shared.label };
        let open = timeout(shared.call_timeout, pool.begin())
            .await
            .map_err(|_| context.timeout(shared.call_timeout))?
            .map_err(|error| context.explain_sqlx(error))?;
        let begun = std::time::Instant::now();
        Ok(Self { open: Some(open), shared: shared.clone(), begun, evidence: Evidence::default() })
    }

    /// # Panics
    /// Never: only methods that consume the transaction end it.
    fn connection(&mut self) -> (&mut PgConnection, &Arc<Shared>, &mut Evidence) {
        match &mut self.open {
            Some(open) => (&mut **open, &self.shared, &mut self.evidence),
            None => unreachable!("a transaction that has ended can't be borrowed"),
        }
    }

    /// Returns the transaction for the statements of this store, and the facts that they collect.
    pub(super) fn driver(&mut self) -> (SqlxConnection<'_>, &Statements, &mut Evidence) {
        let (connection, shared, evidence) = self.connection();
        (SqlxConnection { shared, connection }, &shared.sql, evidence)
    }

    /// Makes sure that there is something to commit: the server answers `COMMIT` of an aborted transaction with `ROLLBACK`, and without a transaction with a
    /// warning, and sqlx reports both as success.
    async fn check(&mut self) -> Result<()> {
        let checked = self.driver().0.batch("commit", CHECK).await;
        checked.map_err(|error| {
            let label = &self.shared.label;
            let why = match error.kind() {
                ErrorKind::Aborted => return error,
                ErrorKind::Unreachable | ErrorKind::Timeout => {
                    format!("the connection to {label} was lost before the commit was sent; nothing was kept")
                }
                _ => format!(
                    "the transaction on {label} was over before its commit: a statement inside it ended it (COMMIT or ROLLBACK)"
                ),
            };
            Error::new(ErrorKind::Aborted, why).with_source(error)
        })
    }
}

impl Deref for SqlxTransaction {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match &self.open {
            Some(open) => open,
            None => unreachable!("a transaction that has ended can't be borrowed"),
        }
    }
}

impl DerefMut for SqlxTransaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.connection().0
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
        let (connection, shared, evidence) = self.connection();
        SqlxTransactionRef { shared, connection, evidence: Some(evidence) }
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

    /// sqlx has no way to send the check and the commit at once, so this takes a round trip more than the engine's driver.
    async fn commit(mut self) -> Result<()> {
        self.check().await?;
        let Some(open) = self.open.take() else { return Ok(()) };
        let context = ErrorContext { what: "commit", label: &self.shared.label };
        let error = match timeout(self.shared.call_timeout, open.commit()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => context.explain_sqlx(error),
            Err(_) => context.timeout(self.shared.call_timeout),
        };
        match error.kind() {
            ErrorKind::Unreachable | ErrorKind::Timeout => {
                resolve(&self.shared, std::mem::take(&mut self.evidence), self.begun, error).await
            }
            // The server answered, so no commit is in progress any more.
            _ => Err(error),
        }
    }

    async fn rollback(mut self) -> Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let context = ErrorContext { what: "roll back", label: &self.shared.label };
        timeout(self.shared.call_timeout, open.rollback())
            .await
            .map_err(|_| context.timeout(self.shared.call_timeout))?
            .map_err(|error| context.explain_sqlx(error))
    }
}
