//! All checks that a change has to pass. Stops at the first failure: later steps take longer and say less.

use std::time::Duration;

use crate::report::Report;
use crate::run::{self, Result};
use crate::test;
use crate::{api, counts, ha, matrix, model, msrv, rooms};

pub(crate) fn run() -> Result<()> {
    let mut report = Report::default();
    let _ = steps(&mut report);
    report.finish()
}

/// Runs the steps; `None` once one has failed.
fn steps(report: &mut Report) -> Option<()> {
    let cargo = |report: &mut Report, args: &[&str]| {
        report.step(&format!("cargo {}", args[0]), || run::run(&mut run::cargo(args), run::CARGO)).then_some(())
    };
    cargo(report, &["fmt", "--all", "--check"])?;
    // Takes no time, since it compiles nothing more.
    report.step("rooms", || rooms::run(None)).then_some(())?;
    cargo(report, &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])?;
    // The package alone, so that no other member of the workspace turns features on.
    cargo(report, &["check", "--package", "jobwright", "--lib", "--no-default-features", "--locked"])?;
    cargo(report, &["check", "--package", "jobwright", "--lib", "--locked"])?;
    deny(report)?;
    report
        .step("cargo doc", || {
            // Libraries only: the binary is named like the library, and their pages would overwrite each other.
            let mut command = run::cargo(["doc", "--workspace", "--lib", "--no-deps"]);
            command.args(["--document-private-items", "--locked"]);
            run::run(command.env("RUSTDOCFLAGS", "-D warnings"), run::CARGO)
        })
        .then_some(())?;
    report.step("public API", || api::run(false)).then_some(())?;
    msrv::step(report)?;
    // Before the tests: it needs no server, and a flaw that it finds need not be found by a test.
    report.step("model", || model::run(&model::Options::default())).then_some(())?;
    test::steps(&test::Options { tolerant: true, ..test::Options::default() }, report);
    // The newest, in addition to Debian's, on which all tests have just run. `cargo xtask matrix` runs the others.
    matrix::steps(&matrix::Options { short: true, ..matrix::Options::default() }, report);
    ha::steps(&ha::Options::short(), report);
    // As a program gets the library: with the files that are in the package, and without our patch of a dependency.
    cargo(report, &["package", "--package", "jobwright", "--all-features", "--locked", "--allow-dirty"]);
    // After the tests: counts mean nothing while tests fail.
    report.step("counts", || counts::run(false));
    report.all_ok().then_some(())
}

/// Runs the checks of cargo-deny that work without a network. Advisories need RustSec's database and have a separate job.
fn deny(report: &mut Report) -> Option<()> {
    const NAME: &str = "cargo deny";
    if !test::installed("deny") {
        if std::env::var_os("JOBWRIGHT_CI_INSTALL").is_none_or(|value| value != "1") {
            report.not_run(NAME, "cargo-deny is not installed (JOBWRIGHT_CI_INSTALL=1 installs it)");
            return Some(());
        }
        report
            .step("install cargo-deny", || {
                // Compiling it takes minutes; half an hour means that something hangs.
                run::run(&mut run::cargo(["install", "cargo-deny", "--locked"]), Duration::from_secs(30 * 60))
            })
            .then_some(())?;
    }
    let args = ["deny", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"];
    report.step(NAME, || run::run(&mut run::cargo(args), run::CARGO)).then_some(())
}
