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
use super::{migrate, primaries};
use crate::config::{DatabaseConfig, HistoryConfig};
use crate::error::Result;
use crate::store::{JobStore, Outage, Store, StoreInfo};

/// A PostgreSQL database (13 or newer) that stores jobs. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Postgres(pub(super) Arc<Shared>);

impl Postgres {
    /// Connects, and checks that the server answers.
    ///
    /// # Errors
    /// If the configuration can't be used, or if none of the servers can be reached within its `connect_timeout`.
    pub async fn connect(config: &DatabaseConfig) -> Result<Self> {
        config.validate()?;
        let target = Target::new(config)?;
        let server = ServerLabel::new(config, &target);
        let sql = Arc::new(Statements::new(&config.schema, config.history.keep));
        let connected = Self::connect_to(config, target, &server, sql).await?;
        server.outage.watch();
        Ok(connected)
    }

    /// Does the same with statements that were rendered before. To render them is much work for a heartbeat, whose time is a part of its lease.
    pub(super) async fn connect_to(
        config: &DatabaseConfig,
        target: Target,
        server: &ServerLabel,
        sql: Arc<Statements>,
    ) -> Result<Self> {
        let shared = Arc::new(Shared {
            user: target.user_pool(config)?,
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
