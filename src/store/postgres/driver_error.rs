//! What an error of the driver means: its kind, its reason in words, and what to do about it.

use std::error::Error as StdError;

use tokio_postgres::Error as PgError;
use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::error::ErrorKind;

/// The SQLSTATE that `refuse_node` raises (see `migrations/postgres/0001_schema.sql`).
const NODE_REFUSED: &str = "JW001";

/// Returns the server's message if there is one: the driver's own is "db error".
pub(super) fn why(error: &PgError) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(said), _) => format!("{} (SQLSTATE {})", said.message(), said.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// Classifies an error that the driver reports without an answer from the server.
fn classify_silence(error: &PgError) -> (ErrorKind, String, &'static str) {
    if error.is_closed() {
        return (ErrorKind::Unreachable, "the connection was lost".into(), "");
    }
    let text = error.to_string();
    let why = error.source().map_or_else(|| text.clone(), |source| format!("{text}: {source}"));
    // The driver distinguishes its errors by their texts only.
    if text.starts_with("error serializing") || text.starts_with("error deserializing") {
        // A bug in this library, which trying again can't fix.
        (ErrorKind::Database, why, "")
    } else if text == "invalid configuration" && why.ends_with("password missing") {
        (ErrorKind::Config, "the server asks for a password, and the database URL has none".into(), "add it to the URL")
    } else if text == "invalid configuration" || text == "authentication error" {
        (ErrorKind::Config, why, "check the user, the password and `channel_binding` in the database URL")
    } else if why.contains("server does not support TLS") {
        (
            ErrorKind::Config,
            "the server does not support TLS".into(),
            "switch it on there (`ssl = on`), or use another `sslmode`",
        )
    } else if let Some(tls) = tls_failure(error) {
        let hint = match tls {
            rustls::Error::InvalidCertificate(_) => {
                "check `sslmode` and `sslrootcert` in the database URL, and the server's certificate"
            }
            rustls::Error::AlertReceived(_) => {
                "the server refused: check `sslcert` and `sslkey` in the database URL, and its log"
            }
            _ => "check `sslmode` in the database URL, and that the server speaks TLS",
        };
        (ErrorKind::Config, format!("TLS failed: {tls}"), hint)
    } else if text == "error performing TLS handshake" {
        (ErrorKind::Unreachable, why, "the server hung up: check its log")
    } else {
        (ErrorKind::Unreachable, why, "check that the server is up and the address is right")
    }
}

/// Finds the TLS error among the causes, however deeply it is nested.
fn tls_failure(error: &PgError) -> Option<&rustls::Error> {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(tls) = inner.downcast_ref() {
            return Some(tls);
        }
        let hidden = inner.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if let Some(tls) = hidden.and_then(|hidden| hidden.downcast_ref()) {
            return Some(tls);
        }
        cause = inner.source();
    }
    None
}

/// Returns whether the server lives and refuses, rather than being away.
pub(super) fn is_refusal(error: &PgError) -> bool {
    // Poolers tell a wrong password so.
    let by_pooler = error.code() == Some(&SqlState::PROTOCOL_VIOLATION);
    by_pooler || !matches!(classify(error).0, ErrorKind::Unreachable | ErrorKind::Busy)
}

pub(super) fn classify(error: &PgError) -> (ErrorKind, String, &'static str) {
    error.as_db_error().map_or_else(|| classify_silence(error), |said| classify_answer(Answer::from(said)))
}

/// The error that a server answered with.
#[derive(Clone, Copy)]
pub(super) struct Answer<'a> {
    pub(super) code: &'a SqlState,
    pub(super) message: &'a str,
    /// The server crashed.
    pub(super) is_panic: bool,
}

impl<'a> From<&'a DbError> for Answer<'a> {
    fn from(said: &'a DbError) -> Self {
        let is_panic = said.parsed_severity() == Some(Severity::Panic);
        Self { code: said.code(), message: said.message(), is_panic }
    }
}

/// Judges the answer of a server, whichever driver received it.
pub(super) fn classify_answer(answer: Answer<'_>) -> (ErrorKind, String, &'static str) {
    let Answer { code, message, is_panic } = answer;
    let why = format!("{message} (SQLSTATE {})", code.code());
    let (kind, hint) = match code {
        // A crash ends all connections, and a commit may have reached the disk before it.
        _ if is_panic => (ErrorKind::Unreachable, "the server crashed"),
        c if *c == SqlState::QUERY_CANCELED => {
            (ErrorKind::Timeout, "the server's statement_timeout cancelled it; nothing of it was kept")
        }
        c if *c == SqlState::READ_ONLY_SQL_TRANSACTION => (
            ErrorKind::ReadOnly,
            "no writes are accepted: connect to the primary, if this is a standby; otherwise look at `default_transaction_read_only` of the server, the database and the role",
        ),
        c if *c == SqlState::IN_FAILED_SQL_TRANSACTION => {
            (ErrorKind::Aborted, "an earlier statement of this transaction failed, so all of it was rolled back")
        }
        c if *c == SqlState::T_R_SERIALIZATION_FAILURE || *c == SqlState::T_R_DEADLOCK_DETECTED => {
            (ErrorKind::Aborted, "it lost a conflict and was rolled back; run it again")
        }
        c if *c == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => {
            (ErrorKind::Aborted, "the server ended a transaction that was idle for too long; run it again")
        }
        c if *c == SqlState::LOCK_NOT_AVAILABLE => {
            (ErrorKind::Busy, "another transaction holds a lock that it needs; nothing of it was kept")
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
        c if c.code() == NODE_REFUSED => (
            ErrorKind::LeaseLost,
            "this node was declared dead, or claims and heartbeats reach different servers: check the hosts of the database URL",
        ),
        c if *c == SqlState::INSUFFICIENT_PRIVILEGE => {
            (ErrorKind::Database, "`jobwright grants PURPOSE ROLE` lists the rights that a role needs")
        }
        // The session in which a statement was prepared is not the one in which it is run.
        c if *c == SqlState::DUPLICATE_PSTATEMENT || *c == SqlState::INVALID_SQL_STATEMENT_NAME => (
            ErrorKind::Config,
            "a pooler in between gives each transaction another session: set `database.pgbouncer = true`",
        ),
        // PgBouncer's own message, which is always in English.
        c if *c == SqlState::PROTOCOL_VIOLATION && message.contains("statement pooling mode") => (
            ErrorKind::Config,
            "the pooler in between pools statements, which tears transactions apart: set its `pool_mode` to `transaction` (with \
             `database.pgbouncer = true`) or to `session`, for this database or user at least",
        ),
        c if c.code().starts_with("57P") || c.code().starts_with("08") => {
            (ErrorKind::Unreachable, "the server is going down or starting up")
        }
        // This is an answer: nothing of the statement was kept.
        c if *c == SqlState::DISK_FULL => {
            (ErrorKind::Busy, "the server's disk is full; nothing of it was kept: free space there")
        }
        c if c.code().starts_with("53") => (ErrorKind::Busy, "the server is out of a resource; nothing of it was kept"),
        _ => (ErrorKind::Database, ""),
    };
    (kind, why, hint)
}

/// Returns the kind of a driver error.
pub(crate) fn driver_kind(error: &(dyn StdError + 'static)) -> Option<ErrorKind> {
    // The server's answer is a cause of the driver's error, and may be the only visible one.
    let said = error.downcast_ref::<DbError>().map(|said| classify_answer(Answer::from(said)).0);
    said.or_else(|| error.downcast_ref::<PgError>().map(|error| classify(error).0))
}

/// Returns whether a statement ended because another transaction holds a lock that it needs.
pub(super) fn lock_held(code: &SqlState) -> bool {
    *code == SqlState::LOCK_NOT_AVAILABLE
}

/// Returns whether the server accepts no more writes, or is shutting down.
pub(super) fn role_changed(error: &PgError) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::READ_ONLY_SQL_TRANSACTION
            || *code == SqlState::ADMIN_SHUTDOWN
            || *code == SqlState::CRASH_SHUTDOWN
    })
}

/// Returns whether the server would refuse every other statement of this sort too, whatever values it has, until something changes there.
pub(super) fn refuses_all(code: &SqlState) -> bool {
    // A table without a replica identity that is published, for example.
    *code == SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE
        || *code == SqlState::INSUFFICIENT_PRIVILEGE
        || *code == SqlState::UNDEFINED_TABLE
        || *code == SqlState::UNDEFINED_COLUMN
        || *code == SqlState::UNDEFINED_FUNCTION
        || *code == SqlState::UNDEFINED_OBJECT
        || *code == SqlState::INVALID_SCHEMA_NAME
        // Files of the server that can't be read or written.
        || code.code().starts_with("58")
}

/// Returns whether the server reports that it no longer waits for a standby. The text depends on the server's language; the source location
/// does not.
pub(super) fn stands_alone(notice: &DbError) -> bool {
    notice.parsed_severity() == Some(Severity::Warning)
        && (notice.routine() == Some("SyncRepWaitForLSN")
            || notice.file().is_some_and(|file| file.ends_with("syncrep.c")))
}

/// Returns whether a cached statement no longer fits, which happens after a schema change or through a pooler.
pub(super) fn stale_statement(error: &PgError) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::INVALID_SQL_STATEMENT_NAME
            || *code == SqlState::FEATURE_NOT_SUPPORTED
                && error.as_db_error().is_some_and(|e| e.message().contains("cached plan"))
    })
}
