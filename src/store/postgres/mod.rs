//! The PostgreSQL store.
//!
//! It has two pools: one for contexts, through whose connections users write, and a small one for the engine. Handlers that use up the
//! first never stop a heartbeat. A third kind of connection, outside both pools, listens for hints.
//!
//! Every call is one statement (see `sql/`). It is prepared once per connection, or unnamed behind a transaction pooler. It has a deadline
//! on both sides: the client's, and the server's `statement_timeout`.

mod admin;
mod admission;
mod cancel;
mod claim;
mod client;
mod clock;
mod columns;
mod commit_status;
mod connect;
mod counting;
mod engine_transaction;
mod error;
mod expiring;
mod external;
mod group_claim;
mod hints;
mod history;
mod insert;
mod job_operations;
mod lent;
mod maintenance;
mod migrate;
mod nodes;
mod options;
mod pool;
mod primaries;
mod progress;
mod queue_capacity;
mod range;
mod receive;
mod retry;
mod roles;
mod rows;
mod rules;
mod schedules;
mod server;
mod shared_cursor;
mod statements;
pub(crate) mod testing;
mod tls;
mod transaction;
mod types;
mod unique;
mod unreadable;
mod walk;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::connect::Target;
use self::error::ErrorContext;
pub(crate) use self::error::driver_kind;
pub use self::lent::PgTransactionRef;
use self::pool::{Object, Pool};
pub use self::primaries::Primary;
use self::server::ServerLabel;
use self::statements::Statements;
pub use self::transaction::PgTransaction;
use super::{JobStore, Store};
use crate::config::DatabaseConfig;
use crate::error::Result;

/// A PostgreSQL database (13 or newer) that stores jobs. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Postgres(Arc<Shared>);

/// The state that all modules of the store share.
struct Shared {
    target: Target,
    /// For contexts.
    user: Pool,
    /// For the engine.
    engine: Pool,
    sql: Statements,
    config: DatabaseConfig,
    call_timeout: Duration,
    pgbouncer: bool,
    depths: queue_capacity::DepthCache,
    /// Where the next search for jobs of dead nodes starts.
    walked: walk::WalkPosition,
    /// Names the database and server in errors and logs.
    label: ServerLabel,
}

impl Postgres {
    /// Connects, and checks that the server answers.
    ///
    /// # Errors
    /// If the configuration can't be used, or if none of the servers can be reached within its `connect_timeout`.
    pub async fn connect(config: &DatabaseConfig) -> Result<Self> {
        config.validate()?;
        let target = Target::new(config)?;
        let server = ServerLabel::new(config, &target);
        let connected = Self::connect_to(config, target, &server).await?;
        server.outage.watch();
        Ok(connected)
    }

    async fn connect_to(config: &DatabaseConfig, target: Target, server: &ServerLabel) -> Result<Self> {
        let shared = Arc::new(Shared {
            user: target.pool(config, config.max_connections, None)?,
            engine: target.pool(config, pool::ENGINE_CONNECTIONS, pool::engine_session(config))?,
            target,
            sql: Statements::new(&config.schema, config.history.keep),
            call_timeout: config.call_timeout,
            pgbouncer: config.pgbouncer,
            depths: queue_capacity::DepthCache::default(),
            walked: walk::WalkPosition::default(),
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
    pub async fn primaries(config: &DatabaseConfig) -> Result<Vec<Primary>> {
        primaries::find(config).await
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

/// Returns a statement with its fragments and the schema filled in.
pub(super) fn rendered(sql: &str, schema: &str) -> String {
    statements::render(sql, schema)
}

/// Returns all statements as they are sent: name, text, and parameter types.
pub(super) fn all_statements(schema: &str, keep: crate::config::Keep) -> Vec<(String, String, Vec<String>)> {
    let statements = Statements::new(schema, keep);
    let all = statements.all().map(|(name, statement)| {
        let types = statement.types.iter().map(ToString::to_string).collect();
        (name.to_owned(), statement.sql.clone(), types)
    });
    all.collect()
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
