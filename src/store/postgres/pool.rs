//! Pools of connections, which drop connections to a server whose role has changed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use deadpool::Runtime;
use deadpool::managed::{self, Metrics, QueueMode, RecycleError, RecycleResult, Timeouts};

use super::conn::Conn;
use super::connect::{Failures, Target};
use crate::config::DatabaseConfig;
use crate::error::{Error, Result};

/// How many connections the engine has to itself, so that handlers which use up the other pool never stop a heartbeat or a release.
pub(super) const ENGINE_CONNECTIONS: usize = 3;

pub(super) type Pool = managed::Pool<Manager>;
pub(super) type Object = managed::Object<Manager>;
pub(super) type PoolError = managed::PoolError<Failures>;

/// How long a connection of the engine, or of a context, stays open that nobody takes. The engine needs several only at its start and under load. The
/// pool knows when a connection was taken, and not when it came back: one that was in use for longer is closed too.
const ENGINE_IDLE: Duration = Duration::from_secs(15);
const USER_IDLE: Duration = Duration::from_secs(60);

/// Creates connections for a pool.
pub(super) struct Manager {
    target: Target,
    session: Option<String>,
    /// Makes a session that code of others had like a new one. None behind a pooler: another client may have the session by then.
    reset: Option<Arc<str>>,
    /// How often the prepared statements of all connections were invalidated.
    edition: AtomicU64,
    /// How long a connection stays open that nobody uses, and when such connections were last looked for.
    idle: Duration,
    looked: Mutex<Instant>,
}

impl Manager {
    /// Returns whether to look for idle connections: now and then, when the pool is used.
    fn looks_for_idle(&self) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let looks = looked.elapsed() > self.idle / 4;
        if looks {
            *looked = Instant::now();
        }
        looks
    }

    /// Makes the connections in the pool prepare their statements again when they are next used. Connections in use are not affected.
    pub(super) fn forget_statements(&self) {
        self.edition.fetch_add(1, Ordering::AcqRel);
    }
}

/// A connection in a pool.
pub(super) struct Pooled {
    conn: Conn,
    edition: u64,
}

impl std::ops::Deref for Pooled {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        &self.conn
    }
}

impl std::ops::DerefMut for Pooled {
    fn deref_mut(&mut self) -> &mut Conn {
        &mut self.conn
    }
}

impl managed::Manager for Manager {
    type Type = Pooled;
    type Error = Failures;

    async fn create(&self) -> Result<Pooled, Failures> {
        // This future is large, and would be part of every call's future.
        let conn = Box::pin(self.target.connect(self.session.as_deref(), None)).await?;
        Ok(Pooled { conn, edition: self.edition.load(Ordering::Acquire) })
    }

    async fn recycle(&self, pooled: &mut Pooled, _: &Metrics) -> RecycleResult<Failures> {
        if pooled.is_closed() {
            return Err(RecycleError::message("it was lost"));
        }
        if self.target.is_retired(&pooled.info) {
            return Err(RecycleError::message("its server has changed its role"));
        }
        // Its settings, such as a tenant or a search path, must not reach the next user. Whoever ends a transaction closes such a connection: none should come here.
        if self.reset.is_some() && pooled.info.was_lent() {
            return Err(RecycleError::message("its session was not reset"));
        }
        let edition = self.edition.load(Ordering::Acquire);
        if pooled.edition != edition {
            pooled.edition = edition;
            pooled.statement_cache.clear();
        }
        Ok(())
    }
}

/// Closes connections that were not used for a while. Those used last are used next, so a pool that is used little keeps one.
pub(super) fn close_idle(pool: &Pool) {
    let manager = pool.manager();
    if manager.looks_for_idle() {
        pool.retain(|_, metrics| metrics.last_used() < manager.idle);
    }
}

/// Makes a session like a new one, except that prepared statements stay: settings, role, cursors, notifications, locks, temporary tables, and what
/// `currval` remembers. A role may have another one as its setting, so that is set again after the session's user.
///
/// It waits for nobody for long: not for a safe snapshot, which the session may have as its default, not for a temporary table that another session
/// has locked, and not for a standby to know that temporary tables are gone.
const RESET: &str = "set transaction isolation level read committed, not deferrable; reset session authorization; reset role; reset all; \
     set local lock_timeout = 300; set local synchronous_commit = off; close all; unlisten *; \
     select pg_catalog.pg_advisory_unlock_all(); discard temp; discard sequences";

/// How long a reset may take. Dropping many temporary tables takes a while.
pub(super) const RESET_WITHIN: Duration = Duration::from_secs(1);

/// Returns the statements that reset a connection that code of others had. The caller runs them, and then calls `is_reset`.
pub(super) fn needed_reset(object: &Object) -> Option<Arc<str>> {
    let pool = Object::pool(object)?;
    pool.manager().reset.clone().filter(|_| object.info.was_lent())
}

impl Target {
    /// Creates the pool for contexts, whose sessions are those that the role and the database ask for.
    pub(super) fn user_pool(&self, config: &DatabaseConfig) -> Result<Pool> {
        self.pool(config, (config.max_connections, USER_IDLE), None)
    }

    /// Creates the pool for the engine.
    pub(super) fn engine_pool(&self, config: &DatabaseConfig) -> Result<Pool> {
        self.pool(config, (ENGINE_CONNECTIONS, ENGINE_IDLE), engine_session(config))
    }

    /// Creates a pool of at most this many connections, of which those are closed that nobody uses for this long.
    fn pool(&self, config: &DatabaseConfig, (size, idle): (usize, Duration), session: Option<String>) -> Result<Pool> {
        let manager = Manager {
            target: self.clone(),
            reset: (!config.pgbouncer).then(|| format!("{RESET}; {}", session.as_deref().unwrap_or_default()).into()),
            session,
            edition: AtomicU64::new(0),
            idle,
            looked: Mutex::new(Instant::now()),
        };
        managed::Pool::builder(manager)
            .max_size(size)
            .queue_mode(QueueMode::Lifo)
            .runtime(Runtime::Tokio1)
            // Connecting has its own limit: one bound per server.
            .timeouts(Timeouts { wait: Some(config.call_timeout), create: None, recycle: None })
            .build()
            .map_err(|e| Error::config(format!("the connection pool can't be built: {e}")))
    }
}

/// Returns how long the server lets an engine statement run. This is a little shorter than the client's deadline, so that the server's
/// answer arrives, which says that nothing was kept. Without an answer that is unknown.
fn statement_timeout(config: &DatabaseConfig) -> Duration {
    config.call_timeout.saturating_sub((config.call_timeout / 10).min(Duration::from_secs(1)))
}

/// Returns the settings of the engine's connections. Their statements must use indexes whatever the statistics say: on a queue that was
/// empty when last analysed, a sequential scan looks cheap but reads every row that died since. Warnings must also get through, because
/// they report a server's doubts about a commit. Nothing that others have put into a schema of the role's search path may get into them. What
/// a role or a database may have as its default, and the plans rely on, is set too: a claim that scans in another way locks jobs before its node.
fn engine_session(config: &DatabaseConfig) -> Option<String> {
    // A pooler shares sessions, so settings made there would leak to other clients.
    (!config.pgbouncer).then(|| {
        format!(
            "set search_path = pg_catalog, pg_temp; set statement_timeout = {}; set lock_timeout = 0; \
             set enable_seqscan = off; set enable_bitmapscan = off; set jit = off; \
             set enable_indexscan = on; set enable_tidscan = on; set enable_nestloop = on; \
             set join_collapse_limit = 8; set from_collapse_limit = 8; set plan_cache_mode = force_generic_plan; set default_transaction_isolation = 'read committed'; \
             set client_min_messages = warning",
            statement_timeout(config).as_millis()
        )
    })
}
