//! Pools of connections, which drop what leads to a server that has changed its role.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{self, Metrics, RecycleError, RecycleResult, Timeouts};

use super::Shared;
use super::connect::{Conn, Failures, Target};
use super::error::role_changed;
use crate::config::DatabaseConfig;
use crate::error::{Error, Result};

/// Connections the engine has for itself, so that handlers which use up the pool never stop a heartbeat or a release.
pub(super) const ENGINE_CONNECTIONS: usize = 3;

pub(super) type Pool = managed::Pool<Manager>;
pub(super) type Object = managed::Object<Manager>;
pub(super) type PoolError = managed::PoolError<Failures>;

/// Makes connections for a pool.
pub(super) struct Manager {
    target: Target,
    session: Option<String>,
    /// How often the statements that connections have prepared were given up.
    edition: AtomicU64,
}

impl Manager {
    /// What is prepared now is prepared anew: in the pool, not on connections that somebody has.
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
        // It is large, and would be a part of every call's future.
        let conn = Box::pin(self.target.connect(self.session.as_deref(), None)).await?;
        Ok(Pooled { conn, edition: self.edition.load(Ordering::Acquire) })
    }

    async fn recycle(&self, pooled: &mut Pooled, _: &Metrics) -> RecycleResult<Failures> {
        if pooled.is_closed() {
            return Err(RecycleError::message("it was lost"));
        }
        if self.target.is_retired(&pooled.line) {
            return Err(RecycleError::message("its server has changed its role"));
        }
        let edition = self.edition.load(Ordering::Acquire);
        if pooled.edition != edition {
            pooled.edition = edition;
            pooled.statement_cache.clear();
        }
        Ok(())
    }
}

impl Target {
    pub(super) fn pool(&self, config: &DatabaseConfig, size: usize, session: Option<String>) -> Result<Pool> {
        let manager = Manager { target: self.clone(), session, edition: AtomicU64::new(0) };
        managed::Pool::builder(manager)
            .max_size(size)
            .runtime(Runtime::Tokio1)
            // Making one bounds itself: each server has its share.
            .timeouts(Timeouts { wait: Some(config.call_timeout), create: None, recycle: None })
            .build()
            .map_err(|e| Error::config(format!("the connection pool can't be built: {e}")))
    }
}

impl Shared {
    /// To its pool, unless nobody would take it from there.
    pub(super) fn give_back(&self, object: Object) {
        if self.target.is_retired(&object.line) {
            drop(Object::take(object));
        }
    }

    /// Hears what a server said: if it has changed its role, or goes down, no idle connection to it is kept.
    pub(super) fn heed(&self, conn: &Conn, error: &tokio_postgres::Error) {
        if !role_changed(error) || !self.target.retire(&conn.line.place) {
            return;
        }
        for pool in [&self.user, &self.engine] {
            pool.retain(|pooled, _| !self.target.is_retired(&pooled.line));
        }
    }
}

/// How long the server lets a statement of the engine run: a little less than we wait for it, so that its answer arrives, which says that
/// nothing was kept. Without an answer that is not known.
fn statement_timeout(config: &DatabaseConfig) -> Duration {
    config.call_timeout.saturating_sub((config.call_timeout / 10).min(Duration::from_secs(1)))
}

/// What the engine's connections are set to. Its statements must use their indexes whatever the statistics say: on a queue
/// that was empty when last analysed, a sequential scan looks cheap and walks everything that died since. And a server's doubts about
/// a commit must come through.
pub(super) fn engine_session(config: &DatabaseConfig) -> Option<String> {
    // A pooler hands sessions around; what was set there would leak to others.
    (!config.pgbouncer).then(|| {
        format!(
            "set statement_timeout = {}; set enable_seqscan = off; set enable_bitmapscan = off; set jit = off; \
             set plan_cache_mode = force_generic_plan; set default_transaction_isolation = 'read committed'; \
             set client_min_messages = warning",
            statement_timeout(config).as_millis()
        )
    })
}
