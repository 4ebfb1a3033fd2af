//! The seam to a driver: what this store asks of an open transaction, whichever driver began it.
//!
//! The engine has connections of its own and asks nothing of this. An application's transaction belongs to the application's driver, and the few
//! statements that have to run in it (`in_transaction.rs`) go through here. Values are encoded and decoded by `postgres-types`, so that each statement and each
//! row is written and read once, for all drivers.

use std::sync::Arc;

use tokio::time::timeout;
use tokio_postgres::types::{FromSql, ToSql};
use tokio_postgres::{Client, Row};

use super::client::query;
use super::conn::Conn;
use super::error::ErrorContext;
use super::rows;
use super::shared::Shared;
use super::statements::Statement;
use crate::error::Result;

/// A row of an answer.
pub(super) trait Columns: Send + Sync {
    /// Reads a column by its name.
    fn column<'a, T: FromSql<'a>>(&'a self, name: &str) -> Result<T>;
}

impl Columns for Row {
    fn column<'a, T: FromSql<'a>>(&'a self, name: &str) -> Result<T> {
        rows::get(self, name)
    }
}

/// An open transaction.
pub(super) trait Driver: Send {
    type Row: Columns;

    /// Runs a statement within the deadline of one call. `tried` is for errors: "could not … on …".
    fn run(
        &mut self,
        tried: &'static str,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<Vec<Self::Row>>> + Send;
}

/// A transaction on a connection of this store, which keeps statements prepared.
pub(super) struct OwnConnection<'t> {
    pub(super) shared: &'t Arc<Shared>,
    pub(super) connection: &'t Conn,
}

impl Driver for OwnConnection<'_> {
    type Row = Row;

    async fn run(
        &mut self,
        what: &'static str,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        let Self { shared, connection } = self;
        let context = ErrorContext { what, label: &shared.label };
        timeout(shared.call_timeout, query(connection, shared, statement, params))
            .await
            .map_err(|_| context.timeout(shared.call_timeout))?
            .map_err(|error| {
                shared.heed(connection, &error);
                context.explain(error)
            })
    }
}

/// A transaction on a connection of the application.
pub(super) struct CallersConnection<'t> {
    pub(super) shared: &'t Arc<Shared>,
    pub(super) client: &'t Client,
}

impl Driver for CallersConnection<'_> {
    type Row = Row;

    /// Unnamed: that connection has no cache of statements of this store, and may go through a pooler.
    async fn run(
        &mut self,
        what: &'static str,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        let Self { shared, client } = self;
        let context = ErrorContext { what, label: &shared.label };
        let typed: Vec<_> = params.iter().copied().zip(statement.types.iter().cloned()).collect();
        timeout(shared.call_timeout, client.query_typed(&statement.sql, &typed))
            .await
            .map_err(|_| context.timeout(shared.call_timeout))?
            .map_err(|error| context.explain(error))
    }
}
