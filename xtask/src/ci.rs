//! The gate: everything a change has to pass. What takes long and seldom fails is in [`crate::sets`].

use crate::report::Report;
use crate::run::Result;
use crate::{counts, ha, lint, model, test};

pub(crate) fn run() -> Result<()> {
    let mut report = Report::default();
    let _ = steps(&mut report);
    report.finish()
}

/// Runs the steps; `None` once one has failed. The gate stops at the first failure of those before the tests: later steps take longer and say less.
fn steps(report: &mut Report) -> Option<()> {
    lint::source(report)?;
    lint::clippy(report)?;
    lint::features(report)?;
    lint::deny(report)?;
    lint::documentation(report)?;
    // Before the tests: it needs no server, and a flaw that it finds need not be found by a test.
    model::step(report)?;
    test::steps(&test::Options { gate: true, ..test::Options::default() }, report);
    ha::steps(&ha::Options::short(), report);
    // After the tests: counts mean nothing while tests fail.
    report.step("counts", || counts::run(false)).then_some(())
}
