//! `jobwright doctor`: independent checks, each with advice. None changes anything, and none shows a password.

mod broker;
mod configuration;
mod connections;
mod database;
mod engine;
mod installation;
mod postgres;
mod rights;
mod sqlite;
mod version;

use std::fmt;
use std::process::ExitCode;

use jobwright::ErrorKind;
use serde::Serialize;
use tokio_postgres::error::SqlState;

use crate::args::DoctorArgs;
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::{Format, harmless, json, print};

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

/// The finding of a check.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    check: &'static str,
    state: State,
    found: String,
    /// The advice.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    todo: Option<String>,
    #[serde(skip)]
    unreachable: bool,
    /// The role lacks a right to look.
    #[serde(skip)]
    denied: bool,
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
        let todo = "ask as a role that may (`jobwright grants monitor ROLE`), or say what this one is for (`--as`); nothing else depends on this check";
        Self { denied: true, ..Self::warn(check, format!("could not be looked at: {what}"), todo) }
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
pub(super) fn denied(error: &jobwright::Error) -> Option<String> {
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

/// Runs all checks. If the configuration can't be read, that is the only finding.
pub(crate) async fn run(settings: Result<Settings, Failure>, args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let mut findings = Vec::new();
    match settings {
        Ok(settings) => {
            findings.extend(configuration::check(&settings, args.purpose));
            let mut known = installation::Known::default();
            findings.extend(database::check(&settings, args.purpose, &mut known).await);
            findings.extend(broker::check(&settings, &known).await);
        }
        Err(failure) => findings.push(Finding::fail(
            "configuration",
            failure.to_string(),
            "correct the configuration; nothing else was checked",
        )),
    }
    if let Some(purpose) = args.purpose.filter(|purpose| !purpose.looks()) {
        for finding in findings.iter_mut().filter(|finding| finding.denied) {
            *finding =
                Finding::ok(finding.check, format!("not looked at: the role of a {} has no need to", purpose.name()));
        }
    }
    match args.output.output {
        Format::Json => json(&findings)?,
        Format::Table => print(sheet(&findings))?,
    }
    Ok(ExitCode::from(if findings.iter().any(|finding| finding.unreachable) {
        3
    } else {
        u8::from(findings.iter().any(|finding| finding.state == State::Fail))
    }))
}

/// Formats the findings, one line each, with the advice below.
fn sheet(findings: &[Finding]) -> String {
    findings.iter().fold(String::new(), |sheet, finding| {
        let Finding { check, state, found, todo, .. } = finding;
        let line = format!("{state:<5} {check:<20} {}\n", harmless(found).replace('\n', " "));
        let todo = todo.as_ref().map_or_else(String::new, |todo| format!("{:<27}→ {}\n", "", harmless(todo)));
        sheet + &line + &todo
    })
}
