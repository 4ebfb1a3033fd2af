//! The handle of the store.

use std::fmt;
use std::sync::Arc;

use super::lent::SqlxTransactionRef;
use super::sqlx::{self, PgPool};
use super::transaction::SqlxTransaction;
use crate::config::DatabaseConfig;
use crate::error::Result;
use crate::store::postgres::Postgres;
use crate::store::{JobStore, Store, UnitOfWork as _};

/// A PostgreSQL database whose contexts and handlers have transactions of sqlx, from the application's pool. Cheap to clone; clones share their
/// connections.
#[derive(Clone)]
pub struct Sqlx {
    engine: Postgres,
    pool: PgPool,
}

impl Sqlx {
    /// Connects the engine to the database of `config`, and takes the connections of contexts and handlers from `pool`. Both must lead to the same
    /// database. A handler that uses its transaction takes a connection of the pool for as long as it runs, so the pool should have as many
    /// as there are such handlers at a time, and those that the application needs besides.
    ///
    /// # Errors
    /// If the configuration can't be used or the server can't be reached, or if the pool leads to another database.
    pub async fn connect(pool: PgPool, config: &DatabaseConfig) -> Result<Self> {
        let store = Self { engine: Postgres::connect(config).await?, pool };
        let mut transaction = store.begin().await?;
        let place = transaction.place().await?;
        transaction.rollback().await?;
        store.engine.check_place(&place).await?;
        Ok(store)
    }

    /// Returns the application's pool.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Returns the engine's side.
    pub(crate) fn postgres(&self) -> &Postgres {
        &self.engine
    }

    /// Lends a caller's transaction to message services.
    pub(crate) fn lend<'t>(&'t self, transaction: &'t mut sqlx::PgConnection) -> SqlxTransactionRef<'t> {
        SqlxTransactionRef::of_caller(&self.engine.0, transaction)
    }
}

impl fmt::Debug for Sqlx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sqlx({:?})", self.engine)
    }
}

impl Store for Sqlx {
    type Transaction = SqlxTransaction;

    async fn begin(&self) -> Result<SqlxTransaction> {
        SqlxTransaction::begin(&self.engine.0, &self.pool).await
    }

    fn engine(&self) -> Arc<dyn JobStore> {
        self.engine.engine()
    }
}
