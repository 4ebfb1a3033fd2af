//! An open transaction that the borrower may not end: lent by a context, or enlisted.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::driver::SqlxConnection;
use super::probed::Probed;
use super::sqlx::PgConnection;
use crate::error::Result;
use crate::job::JobMessage;
use crate::store::postgres::commit_status::Evidence;
use crate::store::postgres::in_transaction;
use crate::store::postgres::shared::Shared;
use crate::store::{Inserted, JobWriter, Preclaim};

/// An open transaction of sqlx that a [message service](crate::MessageService) may write into. It dereferences to sqlx's connection. Leave the
/// end of the transaction to the code that began it; savepoints are fine (`begin` on the connection makes one).
pub struct SqlxTransactionRef<'t> {
    shared: &'t Arc<Shared>,
    connection: &'t mut PgConnection,
    /// There if a context commits it, and not the caller of `enlist`.
    context: Option<(&'t mut Evidence, &'t mut Probed)>,
}

impl<'t> SqlxTransactionRef<'t> {
    pub(super) fn of_context(
        shared: &'t Arc<Shared>,
        connection: &'t mut PgConnection,
        evidence: &'t mut Evidence,
        probed: &'t mut Probed,
    ) -> Self {
        Self { shared, connection, context: Some((evidence, probed)) }
    }

    pub(super) fn of_caller(shared: &'t Arc<Shared>, connection: &'t mut PgConnection) -> Self {
        Self { shared, connection, context: None }
    }

    /// Sets, releases or rolls back to a savepoint.
    pub(crate) async fn savepoint(&mut self, sql: &'static str) -> Result<()> {
        let mut driver = SqlxConnection { shared: self.shared, connection: self.connection, probed: None };
        driver.batch("flush job messages", sql).await
    }
}

impl Deref for SqlxTransactionRef<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.connection
    }
}

impl DerefMut for SqlxTransactionRef<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        if let Some((_, probed)) = &mut self.context {
            probed.forget();
        }
        self.connection
    }
}

impl fmt::Debug for SqlxTransactionRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqlxTransactionRef({})", self.shared.label)
    }
}

impl JobWriter for SqlxTransactionRef<'_> {
    async fn insert(&mut self, messages: &[JobMessage], owned: Option<&Preclaim>) -> Result<Inserted> {
        let (evidence, probed) = match &mut self.context {
            Some((evidence, probed)) => (Some(&mut **evidence), Some(&mut **probed)),
            None => (None, None),
        };
        let mut driver = SqlxConnection { shared: self.shared, connection: self.connection, probed };
        driver.probe().await?;
        in_transaction::insert(&mut driver, &self.shared.sql, messages, owned, evidence).await
    }
}
