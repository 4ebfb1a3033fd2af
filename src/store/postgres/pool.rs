//! Pools of connections, which drop connections to a server whose role has changed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{self, Metrics, RecycleError, RecycleResult, Timeouts};
use tokio::time::{sleep, timeout};

use super::connect::{Conn, Failures, Target};
use crate::config::DatabaseConfig;
use crate::error::{Error, Result};

/// How many connections the engine has to itself, so that handlers which use up the other pool never stop a heartbeat or a release.
pub(super) const ENGINE_CONNECTIONS: usize = 3;

pub(super) type Pool = managed::Pool<Manager>;
pub(super) type Object = managed::Object<Manager>;
pub(super) type PoolError = managed::PoolError<Failures>;

/// When a session is reset that code of others had. Its settings, such as a tenant or a search path, must not reach the next user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resets {
    /// Never: the sessions are those of a pooler, and another client may have this one by now.
    Never,
    /// Before it returns to the pool. Its users need not ask.
    AtOnce,
    /// With the first statement of its next user, which then costs no round trip; and soon, if there is none.
    NextUse,
}

/// Creates connections for a pool.
pub(super) struct Manager {
    target: Target,
    session: Option<String>,
    resets: Resets,
    /// What makes a session of this pool like a new one.
    reset: String,
    /// Whether a task is about to reset connections that nothing uses.
    resets_idle: AtomicBool,
    /// How often the prepared statements of all connections were invalidated.
    edition: AtomicU64,
}

impl Manager {
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
        if IDLE_ONLY.try_with(|()| ()).is_ok() {
            return Err(Failures(Vec::new()));
        }
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
        // The runtime may have ended before the reset did.
        if self.resets == Resets::AtOnce && pooled.info.was_lent() {
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

/// Makes a session like a new one, except that prepared statements stay: settings, role, cursors, notifications, locks, temporary tables, and what
/// `currval` remembers. A role may have another one as its setting, so that is set again after the session's user.
const RESET: &str = "reset session authorization; reset role; reset all; close all; unlisten *; \
     select pg_catalog.pg_advisory_unlock_all(); discard temp; discard sequences";

/// How long a reset may take. Dropping many temporary tables takes a while.
pub(super) const RESET_WITHIN: Duration = Duration::from_secs(5);

/// How long a connection that code of others had may be idle before it is reset. Locks and temporary tables of its session last that long.
const RESET_AFTER: Duration = Duration::from_millis(5);

/// Returns what has to run on a connection before it is used, if code of others had it. The caller runs it, and then calls `is_reset`.
pub(super) fn needed_reset(object: &Object) -> Option<String> {
    let pool = Object::pool(object)?;
    let manager = pool.manager();
    (manager.resets != Resets::Never && object.info.was_lent()).then(|| manager.reset.clone())
}

/// Returns a connection that code of others had to its pool. The caller does not wait for its reset.
pub(super) fn give_back_lent(object: Object) {
    let Some(pool) = Object::pool(&object) else { return };
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        drop(Object::take(object));
        return;
    };
    match pool.manager().resets {
        Resets::Never => {}
        Resets::AtOnce => drop(runtime.spawn(async move { drop(reset(object, RESET_WITHIN).await) })),
        Resets::NextUse => {
            drop(object);
            if let Some(sweep) = Sweep::begin(&pool) {
                runtime.spawn(reset_idle(sweep));
            }
        }
    }
}

/// One task at a time resets the idle connections of a pool, and the next one may begin when this is dropped: also when its runtime ends.
struct Sweep(Pool);

impl Sweep {
    fn begin(pool: &Pool) -> Option<Self> {
        (!pool.manager().resets_idle.swap(true, Ordering::AcqRel)).then(|| Self(pool.clone()))
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        self.0.manager().resets_idle.store(false, Ordering::Release);
    }
}

tokio::task_local! {
    /// Within it, a pool creates no connection.
    static IDLE_ONLY: ();
}

/// Resets those connections of a pool that nothing uses, until none is left.
async fn reset_idle(mut sweep: Sweep) {
    let at_once = Timeouts { wait: Some(Duration::ZERO), create: None, recycle: None };
    loop {
        sleep(RESET_AFTER).await;
        let pool = sweep.0.clone();
        // The one that has been idle for longest comes first, and goes to the end of the line.
        for _ in 0..pool.status().size {
            match IDLE_ONLY.scope((), pool.timeout_get(&at_once)).await {
                Ok(object) if object.info.was_lent() => drop(tokio::spawn(reset(object, RESET_WITHIN))),
                Ok(object) => drop(object),
                Err(_) => break,
            }
        }
        // One that is given back from now on begins the next sweep.
        drop(sweep);
        let mut left = false;
        let _ = pool.retain(|pooled, _| {
            left |= pooled.info.was_lent();
            true
        });
        if !left {
            return;
        }
        let Some(next) = Sweep::begin(&pool) else { return };
        sweep = next;
    }
}

/// Resets the session of a connection if it is needed. If that fails, the connection is closed.
pub(super) async fn reset(object: Object, within: Duration) -> Option<Object> {
    let Some(reset) = needed_reset(&object) else { return Some(object) };
    match timeout(within, object.batch_execute(&reset)).await {
        Ok(Ok(())) => {
            object.info.is_reset();
            Some(object)
        }
        failed => {
            tracing::debug!(?failed, "the session of a connection could not be reset; it is closed");
            drop(Object::take(object));
            None
        }
    }
}

impl Target {
    /// Creates the pool for contexts, whose sessions are those that the role and the database ask for.
    pub(super) fn user_pool(&self, config: &DatabaseConfig) -> Result<Pool> {
        self.pool(config, config.max_connections, None, Resets::NextUse)
    }

    /// Creates the pool for the engine.
    pub(super) fn engine_pool(&self, config: &DatabaseConfig) -> Result<Pool> {
        self.pool(config, ENGINE_CONNECTIONS, engine_session(config), Resets::AtOnce)
    }

    fn pool(&self, config: &DatabaseConfig, size: usize, session: Option<String>, resets: Resets) -> Result<Pool> {
        let manager = Manager {
            target: self.clone(),
            reset: format!("{RESET}; {}", session.as_deref().unwrap_or_default()),
            session,
            resets: if config.pgbouncer { Resets::Never } else { resets },
            resets_idle: AtomicBool::new(false),
            edition: AtomicU64::new(0),
        };
        managed::Pool::builder(manager)
            .max_size(size)
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
