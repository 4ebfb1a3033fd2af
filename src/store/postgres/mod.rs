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
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::types::ToSql;

use self::connect::Target;
use self::error::ErrorContext;
pub(crate) use self::error::driver_kind;
pub use self::lent::PgTransactionRef;
use self::pool::{Object, Pool};
pub use self::primaries::Primary;
use self::server::ServerLabel;
use self::statements::Statements;
pub use self::transaction::PgTransaction;
use super::migration::MigrationStatus;
use super::outage::Outage;
use super::{
    ClaimRequest, Claimed, Completed, DeadLetterGroups, Extension, ExternalDone, GroupClaim, GroupsClaimed, Hint,
    HintStream, Inserted, JobDetail, JobFilter, JobStore, JobSummary, NodeHeartbeat, NodeInfo, Page, Preclaim,
    Promoted, Received, Released, ReportKey, ServerIdentity, Settlement, StatusReport, Store,
};
use crate::config::DatabaseConfig;
use crate::error::Result;
use crate::job::{ClaimNumber, Fence, HandOutNumber, Job, JobId, JobMessage, NodeId, Submission};

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

    fn jobs(&self) -> Arc<dyn JobStore> {
        Arc::new(self.clone())
    }
}

#[async_trait]
impl JobStore for Postgres {
    fn describe(&self) -> String {
        format!("{} (schema {})", self.0.label, self.0.config.schema)
    }

    async fn detached(&self) -> Result<Arc<dyn JobStore>> {
        let config = DatabaseConfig { max_connections: 1, ..self.0.config.clone() };
        Ok(Arc::new(Self::connect_to(&config, self.0.target.clone(), &self.0.label).await?))
    }

    fn outage(&self) -> Option<&Arc<Outage>> {
        Some(&self.0.label.outage)
    }

    async fn migrate(&self) -> Result<Vec<MigrationStatus>> {
        migrate::migrate(&self.0, migrate::MIGRATIONS).await
    }

    async fn migration_status(&self) -> Result<Vec<MigrationStatus>> {
        migrate::status(&self.0, migrate::MIGRATIONS).await
    }

    async fn insert(&self, messages: &[JobMessage], owned: Option<&Preclaim>) -> Result<Inserted> {
        insert::insert(&self.0, messages, owned).await
    }

    async fn notify(&self, hints: &[Hint]) -> Result<()> {
        hints::notify(&self.0, hints).await
    }

    async fn listen(&self) -> Result<Option<Box<dyn HintStream>>> {
        hints::listen(&self.0).await
    }

    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claimed> {
        claim::claim(&self.0, request).await
    }

    async fn complete(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<JobId>> {
        claim::complete(&self.0, node, fences).await
    }

    async fn complete_and_claim_next(
        &self,
        node: NodeId,
        claim: ClaimNumber,
        ended: &[Fence],
        turns: &[GroupClaim],
        kinds: &[String],
    ) -> Result<GroupsClaimed> {
        group_claim::complete_and_claim_next(&self.0, node, claim, ended, turns, kinds).await
    }

    async fn settle(&self, node: NodeId, settlements: &[Settlement]) -> Result<Vec<JobId>> {
        claim::settle(&self.0, node, settlements).await
    }

    async fn handlers_ended(&self, node: NodeId, fences: &[Fence]) -> Result<u64> {
        nodes::handlers_ended(&self.0, Some(node), fences).await
    }

    async fn put_off(&self, node: NodeId, fence: Fence, by: Duration) -> Result<()> {
        let params: [&(dyn ToSql + Sync); 4] = [&node.0, fence.id.as_uuid(), &fence.version, &rows::micros(by)];
        self.0.engine("put a job off", &self.0.sql.put_off, &params).await.map(drop)
    }

    async fn promote_due(&self, limit: usize) -> Result<Promoted> {
        let rows = self.0.engine("promote due timers", &self.0.sql.promote, &[&rows::count(limit)]).await?;
        let row = rows::single(&rows)?;
        let jobs: i64 = rows::get(row, 0)?;
        let queues: Option<Vec<String>> = rows::get(row, 1)?;
        let next: Option<i64> = rows::get(row, 2)?;
        Ok(Promoted {
            jobs: jobs.unsigned_abs(),
            queues: queues.unwrap_or_default(),
            blocked: rows::get(row, 3)?,
            next: next.map(|us| Duration::from_micros(us.max(0).unsigned_abs())),
        })
    }

    async fn register_node(&self, node: &NodeInfo) -> Result<NodeId> {
        nodes::register(&self.0, node).await
    }

    async fn heartbeat(&self, node: NodeId) -> Result<bool> {
        let rows = self.0.engine("renew the node's lease", &self.0.sql.heartbeat, &[&node.0]).await?;
        Ok(!rows.is_empty())
    }

    async fn identity(&self) -> Result<Option<ServerIdentity>> {
        let rows = self.0.engine("ask which server this is", &self.0.sql.server, &[]).await?;
        let row = rows::single(&rows)?;
        Ok(Some(ServerIdentity { history: rows::get(row, 0)?, started: rows::get(row, 1)? }))
    }

    fn reconnect(&self) {
        for pool in [&self.0.engine, &self.0.user] {
            pool.retain(|_, _| false);
        }
    }

    async fn retire_node(&self, node: NodeId) -> Result<u64> {
        nodes::retire(&self.0, node).await
    }

    async fn node_heartbeats(&self) -> Result<Vec<NodeHeartbeat>> {
        nodes::node_heartbeats(&self.0).await
    }

    async fn declare_dead(&self, silent: &[NodeHeartbeat]) -> Result<Vec<NodeId>> {
        nodes::declare_dead(&self.0, silent).await
    }

    async fn release_lost(&self, limit: usize, quarantine: Option<NonZeroU32>) -> Result<Released> {
        nodes::release_lost(&self.0, limit, quarantine).await
    }

    async fn release_unknown(&self, node: NodeId, known: &[Fence], before: Option<ClaimNumber>) -> Result<u64> {
        nodes::release_unknown(&self.0, node, known, before).await
    }

    async fn release_claimed(&self, node: NodeId, claim: ClaimNumber, ids: &[JobId]) -> Result<u64> {
        nodes::release_claimed(&self.0, node, claim, ids).await
    }

    async fn claim_delivered(
        &self,
        node: NodeId,
        claim: ClaimNumber,
        deliveries: &[Fence],
        kinds: Option<&[String]>,
    ) -> Result<Vec<Job>> {
        claim::claim_delivered(&self.0, node, claim, deliveries, kinds).await
    }

    async fn unhide(&self, ids: &[JobId]) -> Result<Vec<String>> {
        let ids: Vec<_> = ids.iter().map(|id| *id.as_uuid()).collect();
        let rows = self.0.engine("end the head start of deliveries", &self.0.sql.unhide, &[&ids]).await?;
        rows.iter().map(|row| rows::get(row, 0)).collect()
    }

    async fn report_broker(&self, node: NodeId, mode: Option<&str>) -> Result<()> {
        self.0.engine("report the broker's mode", &self.0.sql.report_broker, &[&node.0, &mode]).await.map(drop)
    }

    async fn takes_writes(&self) -> Result<()> {
        self.0.engine_once("see whether the tables take writes", &self.0.sql.takes_writes, &[]).await.map(drop)
    }

    async fn hand_out(&self, queue: &str, limit: usize, lease: Duration, token: HandOutNumber) -> Result<Vec<Job>> {
        external::hand_out(&self.0, queue, limit, lease, token).await
    }

    async fn report_key(&self) -> Result<ReportKey> {
        external::report_key(&self.0).await
    }

    async fn take_back(&self, fences: &[Fence]) -> Result<u64> {
        external::take_back(&self.0, fences).await
    }

    async fn complete_external(&self, done: &[ExternalDone]) -> Result<Completed> {
        external::complete(&self.0, done).await
    }

    async fn settle_external(&self, settlements: &[Settlement]) -> Result<Vec<JobId>> {
        external::settle(&self.0, settlements).await
    }

    async fn extend_external(&self, extensions: &[Extension]) -> Result<Vec<JobId>> {
        external::extend(&self.0, extensions).await
    }

    async fn expire_external(&self, limit: usize) -> Result<Released> {
        external::expire(&self.0, limit).await
    }

    async fn receive(&self, submissions: &[Submission]) -> Result<Vec<Received>> {
        receive::receive(&self.0, submissions).await
    }

    async fn prune_submissions(&self, age: Duration, limit: usize) -> Result<u64> {
        receive::prune(&self.0, age, limit).await
    }

    async fn status(&self) -> Result<StatusReport> {
        admin::status(&self.0).await
    }

    async fn list(&self, filter: &JobFilter, page: &Page) -> Result<Vec<JobSummary>> {
        admin::list(&self.0, filter, page).await
    }

    async fn show(&self, id: JobId) -> Result<Option<JobDetail>> {
        admin::show(&self.0, id).await
    }

    async fn dead_letter_groups(&self, filter: &JobFilter, limit: usize) -> Result<DeadLetterGroups> {
        retry::dead_letter_groups(&self.0, filter, limit).await
    }
}
