//! An open transaction that the borrower may not end: lent by a context, or enlisted.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use super::client::query;
use super::columns::{MessageColumns, Texts, in_parts, other_jobs};
use super::commit_status::Evidence;
use super::connect::Conn;
use super::error::ErrorContext;
use super::shared::Shared;
use super::statements::Statement;
use super::unique::{Keys, given};
use crate::error::Result;
use crate::job::JobMessage;
use crate::store::given_ids::{refuse, refuse_twice};
use crate::store::unique::Taken;
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

    async fn run(&self, what: &'static str, statement: &Statement, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
        let shared = self.shared;
        let context = ErrorContext { what, label: &shared.label };
        let answer = match &self.owner {
            Owner::Context { connection, .. } => {
                timeout(shared.call_timeout, query(connection, shared, statement, params)).await
            }
            Owner::Caller(client) => {
                // Unnamed: the caller's connection has no statement cache of this store, and may go through a pooler.
                let typed: Vec<_> = params.iter().copied().zip(statement.types.iter().cloned()).collect();
                timeout(shared.call_timeout, client.query_typed(&statement.sql, &typed)).await
            }
        };
        answer.map_err(|_| context.timeout(shared.call_timeout))?.map_err(|error| {
            if let Owner::Context { connection, .. } = &self.owner {
                shared.heed(connection, &error);
            }
            context.explain(error)
        })
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
        let sql = &self.shared.sql;
        refuse_twice(messages)?;
        let texts = Texts::new(messages);
        let mut taken = Taken::default();
        let known = match given(messages) {
            Some(given) => self.run("look for given ids", &sql.known_ids, &given.params()).await?,
            None => Vec::new(),
        };
        if let Some(keys) = Keys::new(messages, &known)? {
            taken = keys.read(&self.run("ask for keys", &sql.take_unique, &keys.params()).await?)?;
        }
        let parts = MessageColumns::of_each(messages, &texts, owned, &taken.skip);
        let mut inserted = Inserted::default();
        if parts.is_empty() {
            return Ok(taken.reported());
        }
        if let Some(given) = in_parts(messages, &parts) {
            refuse(&other_jobs(&self.run("decide about given ids", &sql.lock_ids, &given.params()).await?)?)?;
        }
        for columns in parts {
            // The caller's commit needs no proof here.
            let columns = if matches!(self.owner, Owner::Context { .. }) { columns.named() } else { columns };
            let rows = self.run("flush job messages", columns.statement(sql), &columns.params()).await?;
            let (more, xid) = columns.read(&rows)?;
            inserted.add(more);
            if let Owner::Context { evidence, .. } = &mut self.owner
                && evidence.xid.is_none()
            {
                evidence.xid = xid;
            }
        }
        if let Owner::Context { evidence, .. } = &mut self.owner {
            // A job whose id was given may have existed before.
            let written = messages.iter().enumerate().filter(|(position, _)| !taken.skip.contains(position));
            let fresh = written.map(|(_, message)| message).find(|message| !message.id_given);
            if let Some(fresh) = fresh {
                evidence.job = Some(fresh.id.into());
            }
        }
        inserted.add(taken.reported());
        Ok(inserted)
    }
}
