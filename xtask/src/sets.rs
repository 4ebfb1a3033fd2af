//! What the gate leaves out because it takes long and seldom fails: each night, and before a release.

use std::time::Duration;

use crate::report::Report;
use crate::run::{self, Result};
use crate::{fuzz, ha, matrix, model, msrv, mutants, package, runner, services, test};

/// Runs what the gate leaves out, each part as long as it needs to say something.
pub(crate) fn nightly() -> Result<()> {
    let mut report = Report::default();
    model::always(&mut report);
    tests(&mut report, &[]);
    matrix::steps(&matrix::Options { brief: true, ..matrix::Options::default() }, &mut report);
    ha::steps(&ha::Options::default(), &mut report);
    toolchain(&mut report);
    report.finish()
}

/// How long the tests with random faults last before a release.
const LONG: [(&str, &str); 4] = [
    ("JOBWRIGHT_SOAK_SECONDS", "600"),
    ("JOBWRIGHT_SIEGE_SECONDS", "600"),
    ("JOBWRIGHT_KILLED_SECONDS", "300"),
    ("JOBWRIGHT_MIGRATE_ROWS", "10000000"),
];

/// Runs everything that is run before a release, in some hours.
pub(crate) fn release() -> Result<()> {
    let mut report = Report::default();
    report.step("model, deep", || model::run(&model::Options { deep: true, ..model::Options::default() }));
    tests(&mut report, &LONG);
    matrix::steps(&matrix::Options::default(), &mut report);
    ha::steps(&ha::Options::all(), &mut report);
    ha::steps(&ha::Options::by_hosts(), &mut report);
    toolchain(&mut report);
    semver(&mut report);
    mutants::steps(&mutants::Options::default(), &mut report);
    match fuzz::parse(&[]) {
        Ok(options) => drop(report.step("fuzz", || fuzz::run(&options))),
        Err(why) => drop(report.step("fuzz", || Err(why))),
    }
    report.finish()
}

/// Runs the tests that the gate leaves out.
fn tests(report: &mut Report, variables: &[(&str, &str)]) {
    let mut found = None;
    let ready = report.step("services up", || services::up().map(|urls| found = Some(urls)))
        && report.step("tools", services::tools)
        && report.step("test runner", runner::ensure);
    let Some(urls) = found.filter(|_| ready) else { return };
    report.step("tests that the gate leaves out", || {
        let mut command = test::nextest("long");
        command.args(["--ignore-default-filter", "-E", test::LEFT_OUT]).envs(urls.variables());
        run::run(command.envs(variables.iter().copied()), Duration::from_secs(3 * 3600))
    });
}

/// Compiles with the oldest Rust, and packages the library.
fn toolchain(report: &mut Report) {
    let _ = msrv::step(report);
    report.step("package", package::run);
}

/// Compares the public API with that of the last release, where there is one and the tool is installed.
fn semver(report: &mut Report) {
    const NAME: &str = "cargo semver-checks";
    if !test::installed("semver-checks") {
        report.not_run(NAME, "cargo-semver-checks is not installed: `cargo install cargo-semver-checks --locked`");
        return;
    }
    let args = ["semver-checks", "--package", "jobwright", "--all-features"];
    report.step(NAME, || run::run(&mut run::cargo(args), run::CARGO));
}
