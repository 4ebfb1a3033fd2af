//! Findings of checks.

use std::fmt;

use jobwright::ErrorKind;
use serde::Serialize;
use tokio_postgres::error::SqlState;

use crate::failure::Failure;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Ok,
    /// It works, but there is something to know.
    Warn,
    /// It does not work.
    Fail,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        })
    }
}

impl State {
    /// Returns the word in green, yellow or red, as wide as the longest.
    pub(super) fn colored(self) -> String {
        let color = match self {
            Self::Ok => 32,
            Self::Warn => 33,
            Self::Fail => 31,
        };
        format!("\x1b[{color}m{self:<5}\x1b[0m")
    }
}

/// The finding of a check.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) state: State,
    pub(super) found: String,
    /// The advice.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub(super) todo: Option<String>,
    #[serde(skip)]
    pub(super) unreachable: bool,
    /// The role lacks a right to look.
    #[serde(skip)]
    pub(super) denied: bool,
}

impl Finding {
    fn new(check: &'static str, state: State, found: impl Into<String>) -> Self {
        Self { check, state, found: found.into(), todo: None, unreachable: false, denied: false }
    }

    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, State::Ok, found)
    }

    pub(super) fn warn(check: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { todo: Some(todo.into()), ..Self::new(check, State::Warn, found) }
    }

    pub(super) fn fail(check: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { todo: Some(todo.into()), ..Self::new(check, State::Fail, found) }
    }

    /// Makes a finding of a check that this role has no right to.
    fn denied(check: &'static str, what: &str) -> Self {
        let todo = "run this as a role with the rights (`jobwright grants monitor ROLE`), or give the purpose of this role (`--as`); nothing else \
                    depends on this check";
        Self { denied: true, ..Self::warn(check, format!("not checked: {what}"), todo) }
    }

    /// Makes a finding from an error of the library. A right that this role lacks is no fault of the checked object.
    pub(super) fn error(check: &'static str, error: jobwright::Error, todo: &str) -> Self {
        if let Some(what) = denied(&error) {
            return Self::denied(check, &what);
        }
        let unreachable = matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Timeout | ErrorKind::Busy);
        Self { unreachable, ..Self::fail(check, Failure::from(error).to_string(), todo) }
    }
}

/// Returns the right that the role lacks, if that is the cause.
pub(crate) fn denied(error: &jobwright::Error) -> Option<String> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::as_db_error)
        {
            return (*error.code() == SqlState::INSUFFICIENT_PRIVILEGE).then(|| error.message().to_owned());
        }
        cause = error.source();
    }
    None
}
