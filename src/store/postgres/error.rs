//! Errors for people: what was tried, on which server, and why it failed.

use std::error::Error as _;

use deadpool::managed::TimeoutType;
use tokio_postgres::Error as PgError;
use tokio_postgres::error::SqlState;

use super::connect::{Failure, Failures};
use super::driver_error::{classify, is_refusal, lock_held, refuses_all, why};
use super::options::Wanted;
use super::pool::PoolError;
use super::server::ServerLabel;
use crate::error::{Error, ErrorKind};
use crate::store::outage::Shortage;

/// The action and the server that an error message names.
#[derive(Clone, Copy)]
pub(super) struct ErrorContext<'a> {
    pub(super) what: &'static str,
    pub(super) label: &'a ServerLabel,
}

impl ErrorContext<'_> {
    pub(super) fn error(self, kind: ErrorKind, why: &str, hint: &str) -> Error {
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
            "its wait for the synchronous standby was ended: it is committed on this server, and perhaps on no other",
            "it is lost if this server fails before the standby has it",
        )
    }

    /// Explains why no server was usable, with each one's reason if there are several. A server that lets nobody in (a password, a right, a database that
    /// is gone) has seen nothing of what was asked: no row and no message is to blame.
    pub(super) fn explain_failures(self, failures: Failures) -> Error {
        let error = self.explain_each(failures);
        if error.is_retryable() { error } else { error.refusing_all() }
    }

    fn explain_each(self, failures: Failures) -> Error {
        let many = failures.0.len() > 1;
        let mut told: Vec<_> = failures.0.into_iter().map(|(label, failure)| (label, judge(failure))).collect();
        if !many && let Some((_, Diagnosis { kind, why, hint, source })) = told.pop() {
            let is_full = source.as_ref().is_some_and(is_full);
            let error = self.unusable(self.error(kind, &why, hint), &why, is_full);
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
        let is_full = told.iter().any(|(_, told)| told.source.as_ref().is_some_and(is_full));
        self.unusable(self.error(kind, &why, ""), &why, is_full)
    }

    /// Records an outage if no server could be reached. The outage is logged once for all such errors.
    fn unreached(self, error: Error, why: &str) -> Error {
        if error.kind() != ErrorKind::Unreachable {
            return error;
        }
        self.label.outage.lost(why);
        error.already_logged()
    }

    /// The same, if no server lets this process in: all that need a connection meet the same. Its caller logs the first error, which has a hint.
    /// A server that has no connection left (`is_full`) may have one for others: that is told once a minute. If it lacks something else, each caller
    /// tells that.
    fn unusable(self, error: Error, why: &str, is_full: bool) -> Error {
        match error.kind() {
            ErrorKind::Unreachable => self.unreached(error, why),
            ErrorKind::Busy if is_full && self.label.outage.lacks(Shortage::Connections, why) => error.already_logged(),
            ErrorKind::Busy => error,
            _ if self.label.outage.unanswered() => error.already_logged(),
            _ => error,
        }
    }

    /// Explains an error of a statement of the engine. That the server takes no writes is told once for all that meet it.
    pub(super) fn explain_engine(self, error: PgError) -> Error {
        let (why, error) = (why(&error), self.explain(error));
        let is_told = error.kind() == ErrorKind::ReadOnly && self.label.outage.lacks(Shortage::Writes, &why);
        if is_told { error.already_logged() } else { error }
    }

    pub(super) fn explain(self, error: PgError) -> Error {
        let (kind, why, hint) = classify(&error);
        let told = self.unreached(self.error(kind, &why, hint), &why);
        match error.as_db_error() {
            Some(said) => answered(told, said.code()).with_source(error),
            // A pooler, for example, that does not keep what was prepared.
            None if kind == ErrorKind::Config => told.refusing_all().with_source(error),
            None => told.with_source(error),
        }
    }

    /// Explains an error of another driver. `code`: a server has answered with it.
    pub(super) fn explain_other(self, kind: ErrorKind, why: &str, hint: &str, code: Option<&SqlState>) -> Error {
        let told = self.error(kind, why, hint);
        match code {
            Some(code) => answered(told, code),
            None if kind == ErrorKind::Config => told.refusing_all(),
            None => told,
        }
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

/// Adds to an error what follows from the answer of a server. An error is its answer that it rolled back, except while it shuts down: then it may have
/// committed before.
fn answered(told: Error, code: &SqlState) -> Error {
    let kind = told.kind();
    let told = if lock_held(code) { told.undecided() } else { told };
    let told = if kind == ErrorKind::Unreachable { told } else { told.keeping_nothing() };
    if refuses_all(code) || kind == ErrorKind::Config { told.refusing_all() } else { told }
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

impl Failures {
    /// Returns whether a server is up and does not let this process in, or not in the role that it asks for.
    pub(super) fn are_refusals(&self) -> bool {
        self.0.iter().any(|(_, failure)| match failure {
            Failure::Driver(error) => is_refusal(error),
            Failure::Role(_) => true,
            Failure::Silent(_) | Failure::Unknown(_) => false,
        })
    }

    /// Returns whether all servers are up and have no connection left.
    pub(super) fn are_busy(&self) -> bool {
        let is_busy =
            |failure: &Failure| matches!(failure, Failure::Driver(error) if classify(error).0 == ErrorKind::Busy);
        self.0.iter().all(|(_, failure)| is_busy(failure))
    }
}

fn is_full(error: &PgError) -> bool {
    error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS)
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
            let why = format!("it does not match `target_session_attrs={}`", wanted.as_str());
            told(kind, why, "")
        }
        Failure::Driver(error) => {
            let (kind, why, hint) = classify(&error);
            Diagnosis { kind, why, hint, source: Some(error) }
        }
    }
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
