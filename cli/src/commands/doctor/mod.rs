//! `jobwright doctor`: independent checks, each with advice. None changes anything, and none shows a password.

mod broker;
mod commits;
mod configuration;
mod connections;
mod database;
mod engine;
mod finding;
mod installation;
mod locks;
mod postgres;
mod rights;
mod sqlite;
mod version;

use std::process::ExitCode;

pub(crate) use self::finding::denied;
use self::finding::{Finding, State};
use crate::args::DoctorArgs;
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::{Format, harmless, has_colors, json, print};

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
                Finding::ok(finding.check, format!("not checked: the role of a {} does not need it", purpose.name()));
        }
    }
    match args.output.output {
        Format::Json => json(&findings)?,
        Format::Table => print(sheet(&findings, has_colors(&std::io::stdout())))?,
    }
    Ok(ExitCode::from(if findings.iter().any(|finding| finding.unreachable) {
        3
    } else {
        let is_bad = |finding: &Finding| finding.state == State::Fail || args.strict && finding.state == State::Warn;
        u8::from(findings.iter().any(is_bad))
    }))
}

/// Formats the findings, one line each, with the advice below, and how many there are at the end.
fn sheet(findings: &[Finding], colors: bool) -> String {
    let of = |state| findings.iter().filter(|finding| finding.state == state).count();
    let last = format!("{} failed, {} warned, {} ok\n", of(State::Fail), of(State::Warn), of(State::Ok));
    let lines = findings.iter().fold(String::new(), |sheet, finding| {
        let Finding { check, state, found, todo, .. } = finding;
        let state = if colors { state.colored() } else { format!("{state:<5}") };
        let line = format!("{state} {check:<20} {}\n", harmless(found).replace('\n', " "));
        let todo = todo.as_ref().map_or_else(String::new, |todo| format!("{:<27}→ {}\n", "", harmless(todo)));
        sheet + &line + &todo
    });
    lines + &last
}
