//! The handle of the store.

use std::fmt;
use std::sync::Arc;

use super::connect::Target;
use super::depth_cache::DepthCache;
use super::error::ErrorContext;
use super::lent::PgTransactionRef;
use super::lock_holder::{HeldCandidates, LockHolders};
use super::passed_over::PassedOver;
use super::pool::Object;
use super::primaries::Primary;
use super::server::ServerLabel;
use super::shared::Shared;
use super::statements::Statements;
use super::transaction::PgTransaction;
use super::walk::WalkPosition;
use super::{in_transaction, migrate, primaries};
use crate::config::{DatabaseConfig, HistoryConfig};
use crate::error::{Error, Result};
use crate::store::{JobStore, Outage, Store, StoreInfo, UnitOfWork as _};

/// A PostgreSQL database (13 or newer) that stores jobs. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Postgres(pub(super) Arc<Shared>);

impl Postgres {
    /// Connects, and checks that the server answers.
    ///
    /// # Errors
    /// If the configuration can't be used, or if none of the servers can be reached within its `connect_timeout`.
    pub async fn connect(config: &DatabaseConfig) -> Result<Self> {
        Self::open(config, None).await
    }

    /// Connects the engine to the database of `config`, and takes the connections of contexts and handlers from the application's pool. Both must lead to
    /// the same database. A handler that uses its transaction takes a connection for as long as it runs, so the pool should have as many as there are such
    /// handlers at a time, and those that the application needs besides; `config.max_connections` counts for nothing.
    ///
    /// * The pool's role needs the rights of a sender, and those of an executor if handlers run (`jobwright grants`).
    /// * A setting that a handler makes without `local` lasts, unless the pool's way of recycling resets it.
    /// * Set [`pgbouncer`](DatabaseConfig::pgbouncer) if the pool goes through a transaction pooler, or if its way of recycling discards prepared
    ///   statements, as `DISCARD ALL` does.
    /// * A connection that comes with an open transaction is closed, which rolls that back.
    ///
    /// # Errors
    /// If the configuration can't be used or the server can't be reached, or if the pool leads to another database.
    pub async fn with_pool(pool: deadpool_postgres::Pool, config: &DatabaseConfig) -> Result<Self> {
        let store = Self::open(config, Some(pool)).await?;
        let mut theirs = store.begin().await?;
        let place = in_transaction::place(&mut theirs.driver().0, &store.0.sql).await?;
        theirs.rollback().await?;
        store.check_place(&place).await?;
        Ok(store)
    }

    async fn open(config: &DatabaseConfig, application: Option<deadpool_postgres::Pool>) -> Result<Self> {
        config.validate()?;
        let target = Target::new(config)?;
        let server = ServerLabel::new(config, &target);
        let sql = Arc::new(Statements::new(&config.schema, config.history.keep));
        let connected = Self::connect_to(config, target, (&server, sql), application).await?;
        server.outage.watch();
        Ok(connected)
    }

    /// Makes sure that the engine has the same database as the application's pool, which leads to `theirs`: jobs that one of them writes would never be found by
    /// the other.
    pub(super) async fn check_place(&self, theirs: &str) -> Result<()> {
        let mut transaction = PgTransaction::begin_engine(&self.0).await?;
        let ours = in_transaction::place(&mut transaction.driver().0, &self.0.sql).await?;
        transaction.rollback().await?;
        if theirs == ours {
            return Ok(());
        }
        Err(Error::config(format!(
            "the application's pool leads to the database {theirs}, and `database.url` to {ours}: both have to lead to the same database of the same server"
        )))
    }

    /// Does the same with statements that were rendered before. To render them is much work for a heartbeat, whose time is a part of its lease.
    pub(super) async fn connect_to(
        config: &DatabaseConfig,
        target: Target,
        (server, sql): (&ServerLabel, Arc<Statements>),
        application: Option<deadpool_postgres::Pool>,
    ) -> Result<Self> {
        let shared = Arc::new(Shared {
            user: target.user_pool(config)?,
            application,
            engine: target.engine_pool(config)?,
            target,
            sql,
            call_timeout: config.call_timeout,
            pgbouncer: config.pgbouncer,
            depths: DepthCache::default(),
            walked: WalkPosition::default(),
            lock_holders: LockHolders::default(),
            held_candidates: HeldCandidates::default(),
            passed_over: PassedOver::default(),
            label: server.clone(),
            config: config.clone(),
        });
        let context = ErrorContext { what: "open a connection", label: &shared.label };
        let client = shared.client(&shared.engine, context).await?;
        if config.pgbouncer {
            keeps_transactions(&client, config, context).await?;
        }
        drop(client);
        Ok(Self(shared))
    }

    /// Finds the servers behind this URL that accept writes. More than one is a fault that nothing else detects: jobs sent to one server
    /// are never seen by nodes that work on the other.
    ///
    /// # Errors
    /// If the configuration can't be used. Servers that do not answer are left out.
    #[doc(hidden)]
    pub async fn primaries(config: &DatabaseConfig) -> Result<Vec<Primary>> {
        primaries::find(config).await
    }

    /// Lends a caller's transaction to message services.
    pub(crate) fn lend<'t>(&'t self, transaction: &'t tokio_postgres::Transaction<'_>) -> PgTransactionRef<'t> {
        PgTransactionRef::of_caller(&self.0, transaction)
    }

    /// Returns the schema changes of this build as SQL that a DBA can run by hand, in a database without the schema. It stops with an error
    /// where the schema exists.
    ///
    /// # Errors
    /// If the configuration can't be used, for example because the name of the schema is not one.
    pub fn migrations(config: &DatabaseConfig) -> Result<String> {
        config.validate()?;
        Ok(migrate::script(&config.schema))
    }
}

/// Checks that the pooler allows transactions of more than one statement. Otherwise that fault may surface much later, when something first
/// needs such a transaction.
async fn keeps_transactions(client: &Object, config: &DatabaseConfig, context: ErrorContext<'_>) -> Result<()> {
    let ask = async {
        // Two requests: a pooler sees a combined one as a single statement.
        client.batch_execute("begin").await?;
        client.batch_execute("rollback").await
    };
    let answer = tokio::time::timeout(config.call_timeout, ask).await;
    answer.map_err(|_| context.timeout(config.call_timeout))?.map_err(|error| context.explain(error))
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Postgres({}, schema {})", self.0.label, self.0.config.schema)
    }
}

impl Store for Postgres {
    type Transaction = PgTransaction;

    async fn begin(&self) -> Result<PgTransaction> {
        PgTransaction::begin(&self.0).await
    }

    fn engine(&self) -> Arc<dyn JobStore> {
        Arc::new(self.clone())
    }
}

impl StoreInfo for Postgres {
    fn describe(&self) -> String {
        format!("{} (schema {})", self.0.label, self.0.config.schema)
    }

    fn outage(&self) -> Option<&Arc<Outage>> {
        Some(&self.0.label.outage)
    }

    fn is_single_writer(&self) -> bool {
        false
    }

    fn history_config(&self) -> HistoryConfig {
        self.0.config.history.clone()
    }
}
