//! The gate: everything a change has to pass. What takes long and seldom fails is in [`crate::sets`].

use crate::report::Report;
use crate::run::Result;
use crate::{clients, counts, ha, lint, model, neighbours, test};

pub(crate) fn run() -> Result<()> {
    let mut report = Report::default();
    let _ = steps(&mut report);
    report.finish()
}

/// Runs the steps; `None` once one has failed. The gate stops at the first failure of those before the tests: later steps take longer and say less.
fn steps(report: &mut Report) -> Option<()> {
    lint::source(report)?;
    let options = test::Options { gate: true, ..test::Options::default() };
    // Downloading and starting servers leaves the processors to the compiler.
    let environment = std::thread::scope(|scope| {
        let preparing = scope.spawn(|| {
            let mut report = Report::default();
            (test::prepare(&options, &mut report), report)
        });
        let checked = checks(report);
        match preparing.join() {
            Ok((environment, prepared)) => {
                report.beside(prepared);
                checked.and(environment)
            }
            Err(_) => {
                report.step("preparation", || Err("its thread has panicked: see above".to_owned()));
                None
            }
        }
    })?;
    test::steps(&options, &environment, report);
    clients::changed(report);
    ha::steps(&ha::Options::short(), report);
    // After the tests: counts mean nothing while tests fail.
    report.step("counts", || counts::run(false)).then_some(())
}

/// Runs what needs no server: a flaw that this finds need not be found by a test.
fn checks(report: &mut Report) -> Option<()> {
    // First: seconds, and nothing to compile.
    neighbours::step(report)?;
    lint::clippy(report)?;
    lint::features(report)?;
    lint::deny(report)?;
    lint::documentation(report)?;
    model::step(report)
}
