//! Turns errors of the driver and the pool into messages for people.

use std::error::Error as StdError;
use std::fmt;

use deadpool::managed::TimeoutType;
use tokio_postgres::Error as PgError;
use tokio_postgres::error::{DbError, Severity, SqlState};

use super::connect::{Failure, Failures};
use super::options::Wanted;
use super::pool::PoolError;
use super::server::ServerLabel;
use crate::error::{Error, ErrorKind};

/// The SQLSTATE that `refuse_node` raises (see `migrations/postgres/0001_schema.sql`).
const NODE_REFUSED: &str = "JW001";

/// The action and the server that an error message names.
#[derive(Clone, Copy)]
pub(super) struct ErrorContext<'a> {
    pub(super) what: &'static str,
    pub(super) label: &'a ServerLabel,
}

impl ErrorContext<'_> {
    fn error(self, kind: ErrorKind, why: &str, hint: &str) -> Error {
        let Self { what, label } = self;
        let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
        Error::new(kind, format!("could not {what} on {label}: {why}{hint}"))
    }

    pub(super) fn timeout(self, after: std::time::Duration) -> Error {
        let error = self.error(
            ErrorKind::Timeout,
            &format!("no answer within {after:?}"),
            "whether it took effect is not known (`database.call_timeout` sets the deadline)",
        );
        if self.label.outage.unanswered() { error.already_logged() } else { error }
    }

    /// The error of a commit that got no answer.
    pub(super) fn commit_unknown(self, lost: Error) -> Error {
        let why = if lost.kind() == ErrorKind::Timeout {
            "no answer came in time (`database.call_timeout`)"
        } else {
            "the connection was lost before the answer came"
        };
        let error = self.error(ErrorKind::CommitUnknown, why, "it may have taken effect or not");
        let error = if lost.is_already_logged() { error.already_logged() } else { error };
        error.with_source(lost)
    }

    /// The error of a commit whose wait for the synchronous standby ended early: the requested durability is not guaranteed.
    pub(super) fn stands_alone(self) -> Error {
        self.error(
            ErrorKind::CommitUnknown,
            "somebody ended its wait for the synchronous standby: it is committed on this server, and perhaps on no other",
            "it is lost if this server fails before the standby has it",
        )
    }

    /// Explains why no server was usable, with each one's reason if there are several.
    pub(super) fn explain_failures(self, failures: Failures) -> Error {
        let many = failures.0.len() > 1;
        let mut told: Vec<_> = failures.0.into_iter().map(|(label, failure)| (label, judge(failure))).collect();
        if !many && let Some((_, Diagnosis { kind, why, hint, source })) = told.pop() {
            let error = self.unreached(self.error(kind, &why, hint), &why);
            return match source {
                Some(source) => error.with_source(source),
                None => error,
            };
        }
        let first = told.first().map_or(ErrorKind::Unreachable, |(_, told)| told.kind);
        let alike = told.iter().all(|(_, told)| told.kind == first);
        // If one of them may be usable later, trying again may help.
        let later = told.iter().any(|(_, told)| Error::new(told.kind, "").is_retryable());
        let kind = if alike || !later { first } else { ErrorKind::Unreachable };
        let reasons: Vec<_> = told.iter().map(|(label, told)| told.at(label)).collect();
        let why = format!("none of the servers would do: {}", reasons.join("; "));
        self.unreached(self.error(kind, &why, ""), &why)
    }

    /// Records an outage if no server could be reached. The outage is logged once for all such errors.
    fn unreached(self, error: Error, why: &str) -> Error {
        if error.kind() != ErrorKind::Unreachable {
            return error;
        }
        self.label.outage.lost(why);
        error.already_logged()
    }

    pub(super) fn explain(self, error: PgError) -> Error {
        let (kind, why, hint) = classify(&error);
        // An error is the server's answer that it rolled back, except while it shuts down: then it may have committed before.
        let refused = error.as_db_error().is_some() && kind != ErrorKind::Unreachable;
        let told = self.unreached(self.error(kind, &why, hint), &why).with_source(error);
        if refused { told.keeping_nothing() } else { told }
    }

    /// Explains why there was no connection, so nothing was sent.
    pub(super) fn explain_pool(self, error: PoolError, connections: usize) -> Error {
        match error {
            PoolError::Backend(failures) => self.explain_failures(failures).keeping_nothing(),
            PoolError::Timeout(TimeoutType::Wait) => {
                let error = self.error(
                    ErrorKind::Busy,
                    &format!("none of the {connections} connections became free in time"),
                    "raise `database.max_connections`, or keep transactions shorter",
                );
                // All of them may be waiting for a server that does not answer.
                let error = if self.label.outage.explains() { error.already_logged() } else { error };
                error.keeping_nothing()
            }
            other => self.error(ErrorKind::Unreachable, &other.to_string(), "").keeping_nothing(),
        }
    }
}

/// Why a server was unusable, ready for display.
struct Diagnosis {
    kind: ErrorKind,
    why: String,
    hint: &'static str,
    source: Option<PgError>,
}

impl Diagnosis {
    fn at(&self, label: &str) -> String {
        let Self { why, hint, .. } = self;
        if hint.is_empty() { format!("{label}: {why}") } else { format!("{label}: {why} ({hint})") }
    }
}

fn judge(failure: Failure) -> Diagnosis {
    let told = |kind, why, hint| Diagnosis { kind, why, hint, source: None };
    match failure {
        Failure::Silent(bound) => told(
            ErrorKind::Unreachable,
            format!("no answer within {bound:?}"),
            "check that it is up and can be reached (`database.connect_timeout`, or `connect_timeout` in the URL)",
        ),
        Failure::Unknown(error) => told(
            ErrorKind::Unreachable,
            format!("its name could not be looked up: {error}"),
            "check the host in the URL",
        ),
        Failure::Role(wanted) => {
            let kind = match wanted {
                Wanted::ReadWrite | Wanted::Primary => ErrorKind::ReadOnly,
                Wanted::Any | Wanted::ReadOnly | Wanted::Standby => ErrorKind::Unreachable,
            };
            let why = format!("it is not what `target_session_attrs={}` asks for", wanted.as_str());
            told(kind, why, "")
        }
        Failure::Driver(error) => {
            let (kind, why, hint) = classify(&error);
            Diagnosis { kind, why, hint, source: Some(error) }
        }
    }
}

/// For logs.
impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (label, failure)) in self.0.iter().enumerate() {
            let comma = if n > 0 { "; " } else { "" };
            match failure {
                Failure::Driver(error) => write!(f, "{comma}{label}: {}", classify(error).1)?,
                Failure::Silent(bound) => write!(f, "{comma}{label}: no answer within {bound:?}")?,
                Failure::Unknown(error) => write!(f, "{comma}{label}: {error}")?,
                Failure::Role(wanted) => write!(f, "{comma}{label}: not {}", wanted.as_str())?,
            }
        }
        Ok(())
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

fn classify(error: &PgError) -> (ErrorKind, String, &'static str) {
    error.as_db_error().map_or_else(|| classify_silence(error), classify_answer)
}

fn classify_answer(db: &DbError) -> (ErrorKind, String, &'static str) {
    let code = db.code();
    let why = format!("{} (SQLSTATE {})", db.message(), code.code());
    let (kind, hint) = match code {
        // A crash ends all connections, and a commit may have reached the disk before it.
        _ if db.parsed_severity() == Some(Severity::Panic) => (ErrorKind::Unreachable, "the server crashed"),
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
        c if *c == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => {
            (ErrorKind::Aborted, "the server ended a transaction that was idle for too long; run it again")
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
            (ErrorKind::Database, "grant the role what docs/operations.md lists")
        }
        // PgBouncer's own message, which is always in English.
        c if *c == SqlState::PROTOCOL_VIOLATION && db.message().contains("statement pooling mode") => (
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
    let said = error.downcast_ref::<DbError>().map(|said| classify_answer(said).0);
    said.or_else(|| error.downcast_ref::<PgError>().map(|error| classify(error).0))
}

/// Returns whether the connection itself is gone, so that another one may succeed at once.
pub(super) fn lost_connection(error: &Error) -> bool {
    error.kind() == ErrorKind::Unreachable
}

/// Returns whether no answer came, so that the statement may have taken effect. A server that cancels a statement at its own deadline has
/// answered.
pub(super) fn unanswered(error: &Error) -> bool {
    lost_connection(error) || error.kind() == ErrorKind::Timeout && error.source().is_none()
}

/// Returns whether the server accepts no more writes, or is shutting down.
pub(super) fn role_changed(error: &PgError) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::READ_ONLY_SQL_TRANSACTION
            || *code == SqlState::ADMIN_SHUTDOWN
            || *code == SqlState::CRASH_SHUTDOWN
    })
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
