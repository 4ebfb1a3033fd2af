//! Turns what the driver and the pool say into errors for people.

use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::Error as PgError;
use tokio_postgres::error::SqlState;

use crate::error::{Error, ErrorKind};

/// What was being done, and where, for the text of an error.
#[derive(Clone, Copy)]
pub(super) struct Doing<'a> {
    pub(super) what: &'static str,
    pub(super) place: &'a str,
}

impl Doing<'_> {
    fn error(self, kind: ErrorKind, why: &str, hint: &str) -> Error {
        let Self { what, place } = self;
        let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
        Error::new(kind, format!("could not {what} on {place}: {why}{hint}"))
    }

    pub(super) fn timeout(self, after: std::time::Duration) -> Error {
        self.error(
            ErrorKind::Timeout,
            &format!("no answer within {after:?}"),
            "whether it took effect is not known (`database.call_timeout` sets the deadline)",
        )
    }

    /// The connection was lost under a statement that is a commit.
    pub(super) fn commit_unknown(self, lost: Error) -> Error {
        self.error(
            ErrorKind::CommitUnknown,
            "the connection was lost before the answer came",
            "it may have taken effect or not",
        )
        .with_source(lost)
    }

    pub(super) fn explain(self, error: PgError) -> Error {
        let (kind, why, hint) = classify(&error);
        self.error(kind, &why, hint).with_source(error)
    }

    pub(super) fn explain_pool(self, error: PoolError, connections: usize) -> Error {
        match error {
            PoolError::Backend(error) => self.explain(error),
            PoolError::Timeout(TimeoutType::Wait) => self.error(
                ErrorKind::Busy,
                &format!("none of the {connections} connections became free in time"),
                "raise `database.max_connections`, or keep transactions shorter",
            ),
            PoolError::Timeout(_) => self.error(
                ErrorKind::Unreachable,
                "the server did not answer in time (`database.connect_timeout`)",
                "check that it is up and can be reached",
            ),
            other => self.error(ErrorKind::Unreachable, &other.to_string(), ""),
        }
    }
}

fn classify(error: &PgError) -> (ErrorKind, String, &'static str) {
    let Some(db) = error.as_db_error() else {
        return if error.is_closed() {
            (ErrorKind::Unreachable, "the connection was lost".into(), "")
        } else {
            use std::error::Error as _;
            let why = error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
            // Everything the driver reports without an answer of the server is a broken conversation, except a value that
            // could not be converted, which is our fault and can't be cured by trying again.
            let text = error.to_string();
            if text.starts_with("error serializing") || text.starts_with("error deserializing") {
                (ErrorKind::Database, why, "")
            } else {
                (ErrorKind::Unreachable, why, "check that the server is up and the address is right")
            }
        };
    };
    let code = db.code();
    let why = format!("{} (SQLSTATE {})", db.message(), code.code());
    let (kind, hint) = match code {
        c if *c == SqlState::QUERY_CANCELED => {
            (ErrorKind::Timeout, "the server's statement_timeout cancelled it; nothing of it was kept")
        }
        c if *c == SqlState::READ_ONLY_SQL_TRANSACTION => {
            (ErrorKind::ReadOnly, "this server accepts no writes (a standby?): connect to the primary")
        }
        c if *c == SqlState::IN_FAILED_SQL_TRANSACTION => {
            (ErrorKind::Aborted, "an earlier statement of this transaction failed, so all of it was rolled back")
        }
        c if *c == SqlState::T_R_SERIALIZATION_FAILURE || *c == SqlState::T_R_DEADLOCK_DETECTED => {
            (ErrorKind::Aborted, "it lost a conflict and was rolled back; run it again")
        }
        c if *c == SqlState::TOO_MANY_CONNECTIONS => (ErrorKind::Busy, "the server has no connection left"),
        c if *c == SqlState::INVALID_PASSWORD || *c == SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            (ErrorKind::Config, "check user and password in the database URL")
        }
        c if *c == SqlState::INVALID_CATALOG_NAME => (ErrorKind::Config, "create the database, or correct the URL"),
        c if *c == SqlState::UNDEFINED_TABLE
            || *c == SqlState::INVALID_SCHEMA_NAME
            || *c == SqlState::UNDEFINED_COLUMN =>
        {
            (ErrorKind::Schema, "run `jobwright migrate`, or check `database.schema`")
        }
        c if *c == SqlState::INSUFFICIENT_PRIVILEGE => {
            (ErrorKind::Database, "grant the role what docs/operations.md lists")
        }
        c if c.code().starts_with("57P") || c.code().starts_with("08") => {
            (ErrorKind::Unreachable, "the server is going down or starting up")
        }
        c if c.code().starts_with("53") => (ErrorKind::Unreachable, "the server is out of a resource"),
        _ => (ErrorKind::Database, ""),
    };
    (kind, why, hint)
}

/// Whether the connection itself is gone, so that another one may do better at once.
pub(super) fn lost_connection(error: &Error) -> bool {
    error.kind() == ErrorKind::Unreachable
}

/// Whether a cached statement no longer fits, which happens after a change of the schema or through a pooler.
pub(super) fn stale_statement(error: &PgError) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::INVALID_SQL_STATEMENT_NAME
            || *code == SqlState::FEATURE_NOT_SUPPORTED
                && error.as_db_error().is_some_and(|e| e.message().contains("cached plan"))
    })
}
