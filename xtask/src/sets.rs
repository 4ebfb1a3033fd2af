//! The checks that the gate leaves out because they take long and seldom fail: each night, and before a release.

use std::process::Command;
use std::time::Duration;

use crate::report::Report;
use crate::run::{self, Result};
use crate::{bench, clients, failures, fuzz, ha, matrix, model, msrv, mutants, package, runner, services, test};

/// Runs the checks that the gate leaves out, each as long as it needs to say something.
pub(crate) fn nightly() -> Result<()> {
    let mut report = Report::default();
    model::always(&mut report);
    tests(&mut report, test::LEFT_OUT, &[]);
    matrix::steps(&matrix::Options { brief: true, ..matrix::Options::default() }, &mut report);
    ha::steps(&ha::Options::default(), &mut report);
    clients::always(&mut report);
    mutants::compile(&mut report);
    report.step("fleet", fleet);
    toolchain(&mut report);
    report.finish()
}

/// How long the tests with random faults last before a release, and how many rows a change of the schema has to live with.
const LONG: [(&str, &str); 4] = [
    ("JOBWRIGHT_SOAK_SECONDS", "600"),
    ("JOBWRIGHT_SIEGE_SECONDS", "600"),
    ("JOBWRIGHT_KILLED_SECONDS", "300"),
    ("JOBWRIGHT_MIGRATE_ROWS", "10000000"),
];

/// Runs the checks that a release needs in addition to the gate, in some hours.
pub(crate) fn release() -> Result<()> {
    let mut report = Report::default();
    report.step("model, deep", || model::run(&model::Options { deep: true, ..model::Options::default() }));
    let changes_of_the_schema = "test(/^executor::upgrades::/)";
    tests(&mut report, &format!("{} | {changes_of_the_schema}", test::LEFT_OUT), &LONG);
    matrix::steps(&matrix::Options::default(), &mut report);
    ha::steps(&ha::Options::all(), &mut report);
    ha::steps(&ha::Options::by_hosts(), &mut report);
    toolchain(&mut report);
    semver(&mut report);
    mutants::planted(&[], &mut report);
    report.step("fuzz", || fuzz::parse(&[]).and_then(|options| fuzz::run(&options)));
    report.finish()
}

/// Counts what forty idle nodes cost a database. It is too long for the gate, and its limits are counts and not times.
fn fleet() -> Result<()> {
    let args = ["fleet", "--nodes", "40", "--seconds", "30", "--only", "start,idle", "--check"];
    bench::run(&args.map(str::to_owned))
}

/// Runs the tests of this filter.
fn tests(report: &mut Report, filter: &str, variables: &[(&str, &str)]) {
    let mut found = None;
    let ready = report.step("services up", || services::up().map(|urls| found = Some(urls)))
        && report.step("tools", services::tools)
        && report.step("test runner", runner::ensure);
    let Some(urls) = found.filter(|_| ready) else { return };
    failures::step(report, "tests that the gate leaves out", "long", || {
        let mut command = test::nextest("long");
        command.args(["--ignore-default-filter", "-E", filter]).envs(urls.variables());
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
    let mut tags = Command::new("git");
    tags.args(["tag", "--list", "v*"]).current_dir(run::workspace());
    match run::capture(&mut tags, Duration::from_secs(30)) {
        Ok(tags) if tags.is_empty() => return report.not_run(NAME, "there is no release yet: no tag begins with `v`"),
        Ok(_) => {}
        Err(why) => {
            report.step(NAME, || Err(why));
            return;
        }
    }
    if !test::installed("semver-checks") {
        report.not_run(NAME, "cargo-semver-checks is not installed: `cargo install cargo-semver-checks --locked`");
        return;
    }
    let args = ["semver-checks", "--package", "jobwright", "--all-features"];
    report.step(NAME, || run::run(&mut run::cargo(args), run::CARGO));
}
