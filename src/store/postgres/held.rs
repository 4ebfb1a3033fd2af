//! A connection that was taken from a pool: one of the engine's pools, or the application's.

use std::ops::Deref;
use std::sync::Arc;

use deadpool::managed::{HookError, PoolError, TimeoutType};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;

use super::conn::Conn;
use super::driver_error::classify;
use super::error::ErrorContext;
use super::pool::{Object, needed_reset};
use super::shared::Shared;
use crate::error::{Error, ErrorKind, Result};

/// Begins a transaction on a connection of the application's pool. Where other code has left one open, `begin` alone only warns, and the commit would be
/// that of both. With an option it is refused there, once a statement has run. The option is the default, and only counts for read-only transactions.
pub(super) const BEGIN_ALONE: &str = "begin not deferrable";

/// For the log.
pub(super) const LEFT_OPEN: &str = "a connection of the application's pool came with a transaction that other code has left open: \
                                    it is closed, and the transaction rolled back";

/// Returns whether a `begin` was refused because there is a transaction already.
pub(super) fn is_open_already(code: &SqlState) -> bool {
    *code == SqlState::ACTIVE_SQL_TRANSACTION || *code == SqlState::IN_FAILED_SQL_TRANSACTION
}

/// A connection of a pool, to which it returns when it is dropped.
pub(super) enum Held {
    Ours(Object),
    Application(Conn),
}

impl Held {
    /// Closes the connection: its pool does not get it back.
    pub(super) fn close(self) {
        match self {
            Self::Ours(object) => drop(Object::take(object)),
            Self::Application(conn) => conn.close(),
        }
    }

    /// Returns the statement that begins a transaction here. `usual`: on a connection of ours.
    pub(super) fn begin<'s>(&self, usual: &'s str) -> &'s str {
        match self {
            Self::Ours(_) => usual,
            Self::Application(_) => BEGIN_ALONE,
        }
    }

    /// Returns the statements that make the session like a new one, if code of others had it. The application decides about the sessions of its own pool.
    pub(super) fn needed_reset(&self) -> Option<Arc<str>> {
        match self {
            Self::Ours(object) => needed_reset(object),
            Self::Application(_) => None,
        }
    }
}

impl From<Object> for Held {
    fn from(object: Object) -> Self {
        Self::Ours(object)
    }
}

impl Deref for Held {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        match self {
            Self::Ours(object) => object,
            Self::Application(conn) => conn,
        }
    }
}

/// The use of a transaction, which decides about the pool.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    Context,
    Engine,
}

impl Shared {
    /// Takes a connection, within the time of a call.
    pub(super) async fn take(&self, purpose: Purpose, context: ErrorContext<'_>) -> Result<Held> {
        match (purpose, &self.application) {
            (Purpose::Engine, _) => self.client(&self.engine, context).await.map(Held::Ours),
            (Purpose::Context, None) => self.client(&self.user, context).await.map(Held::Ours),
            (Purpose::Context, Some(pool)) => {
                let taken =
                    timeout(self.call_timeout, pool.get()).await.unwrap_or(Err(PoolError::Timeout(TimeoutType::Wait)));
                let object = taken.map_err(|error| context.explain_application(error, pool.status().max_size))?;
                Ok(Held::Application(Conn::of_application(object)))
            }
        }
    }

    /// Returns how many connections the pool has at most.
    pub(super) fn pool_size(&self, purpose: Purpose) -> usize {
        match (purpose, &self.application) {
            (Purpose::Engine, _) => self.engine.status().max_size,
            (Purpose::Context, None) => self.user.status().max_size,
            (Purpose::Context, Some(pool)) => pool.status().max_size,
        }
    }
}

impl ErrorContext<'_> {
    /// Explains why the application's pool gave no connection, so nothing was sent. Its outage is not told as one of the engine's connections.
    fn explain_application(self, error: deadpool_postgres::PoolError, connections: usize) -> Error {
        let told = match error {
            PoolError::Timeout(_) => self.error(
                ErrorKind::Busy,
                &format!("none of the {connections} connections of the application's pool became free in time"),
                "check that the server can be reached; otherwise make that pool larger, or keep transactions shorter",
            ),
            PoolError::Closed => self.error(ErrorKind::Unreachable, "the application has closed its pool", ""),
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                let (kind, why, hint) = classify(&error);
                self.explain_other(kind, &why, hint, error.code()).with_source(error)
            }
            other => {
                self.error(ErrorKind::Config, &other.to_string(), "check the application's pool").with_source(other)
            }
        };
        told.keeping_nothing()
    }
}
