//! An open transaction that the borrower may not end: lent by a context, or enlisted.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tokio::time::timeout;
use tokio_postgres::Client;

use super::commit_status::Evidence;
use super::conn::Conn;
use super::driver::{CallersConnection, OwnConnection};
use super::error::ErrorContext;
use super::in_transaction;
use super::shared::Shared;
use crate::error::Result;
use crate::job::JobMessage;
use crate::store::{Inserted, JobWriter, Preclaim};

/// An open PostgreSQL transaction that a [message service](crate::MessageService) may write into. It dereferences to the driver's client,
/// as [`PgTransaction`](crate::PgTransaction) does: `execute`, `query`, `copy_in`. Leave `COMMIT` and `ROLLBACK` to the code that began it;
/// `SAVEPOINT` is fine.
pub struct PgTransactionRef<'t> {
    shared: &'t Arc<Shared>,
    owner: Owner<'t>,
}

/// The code that began the transaction.
enum Owner<'t> {
    /// A context, whose connection keeps statements prepared and whose commit is proven by the rows it writes.
    Context { connection: &'t Conn, evidence: &'t mut Evidence },
    /// The caller of `enlist`, on its own connection.
    Caller(&'t Client),
}

impl<'t> PgTransactionRef<'t> {
    pub(super) fn of_context(shared: &'t Arc<Shared>, connection: &'t Conn, evidence: &'t mut Evidence) -> Self {
        Self { shared, owner: Owner::Context { connection, evidence } }
    }

    pub(super) fn of_caller(shared: &'t Arc<Shared>, transaction: &'t tokio_postgres::Transaction<'_>) -> Self {
        Self { shared, owner: Owner::Caller(transaction.client()) }
    }

    /// Sets, releases or rolls back to a savepoint.
    pub(crate) async fn savepoint(&self, sql: &str) -> Result<()> {
        let context = ErrorContext { what: "flush job messages", label: &self.shared.label };
        let client: &Client = match &self.owner {
            Owner::Context { connection, .. } => connection,
            Owner::Caller(client) => client,
        };
        timeout(self.shared.call_timeout, client.batch_execute(sql))
            .await
            .map_err(|_| context.timeout(self.shared.call_timeout))?
            .map_err(|error| context.explain(error))
    }
}

impl Deref for PgTransactionRef<'_> {
    type Target = Client;

    fn deref(&self) -> &Client {
        match &self.owner {
            Owner::Context { connection, .. } => {
                connection.info.lend();
                connection
            }
            Owner::Caller(client) => client,
        }
    }
}

impl fmt::Debug for PgTransactionRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PgTransactionRef({})", self.shared.label)
    }
}

impl JobWriter for PgTransactionRef<'_> {
    async fn insert(&mut self, messages: &[JobMessage], owned: Option<&Preclaim>) -> Result<Inserted> {
        let (shared, sql) = (self.shared, &self.shared.sql);
        match &mut self.owner {
            Owner::Context { connection, evidence } => {
                let mut driver = OwnConnection { shared, connection };
                in_transaction::insert(&mut driver, sql, messages, owned, Some(evidence)).await
            }
            Owner::Caller(client) => {
                let mut driver = CallersConnection { shared, client };
                in_transaction::insert(&mut driver, sql, messages, owned, None).await
            }
        }
    }
}
