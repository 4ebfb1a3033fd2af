//! The inner loop: what can be checked in a few minutes and without any server.

use crate::report::Report;
use crate::run::{self, Result};
use crate::{failures, lint, runner, test};

/// Unit tests, and the behaviour of stores on the embedded database and the oracle.
const TESTS: &str = "kind(lib) | kind(bin) | (binary(stores) & test(/^conformance::(sqlite|oracle)::/))";

pub(crate) fn run() -> Result<()> {
    let mut report = Report::default();
    let _ = steps(&mut report);
    report.finish()
}

/// Runs the steps; `None` once one has failed.
fn steps(report: &mut Report) -> Option<()> {
    lint::source(report)?;
    lint::clippy(report)?;
    report.step("test runner", runner::ensure).then_some(())?;
    failures::step(report, "tests without servers", "default", || {
        let mut command = test::nextest("default");
        command.args(["--lib", "--bins", "--test", "stores", "-E", TESTS]);
        run::run(test::Environment::default().set(&mut command), run::CARGO)
    })
    .then_some(())
}
