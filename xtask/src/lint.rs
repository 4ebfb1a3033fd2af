//! Checks of the source that run nothing of it.

use std::time::Duration;

use crate::report::Report;
use crate::run;
use crate::{api, documents, layers, test, words};

/// Checks the format, the layers, the words, and the form of the documents. Takes no time, since it compiles nothing more.
pub(crate) fn source(report: &mut Report) -> Option<()> {
    report.step("format", || run::run(&mut run::cargo(["fmt", "--all", "--check"]), run::CARGO)).then_some(())?;
    report.step("layers", layers::run).then_some(())?;
    report.step("words", words::run).then_some(())?;
    report.step("form of the Rust in the documents", documents::check).then_some(())
}

/// Runs clippy on everything.
pub(crate) fn clippy(report: &mut Report) -> Option<()> {
    let args = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    report.step("clippy", || run::run(&mut run::cargo(args), run::CARGO)).then_some(())
}

/// Checks the library with few features: the package alone, so that no other member of the workspace turns more of them on.
pub(crate) fn features(report: &mut Report) -> Option<()> {
    for (name, features) in [
        ("library with defaults", ""),
        ("library with sqlite", "sqlite"),
        ("library with rabbitmq", "rabbitmq"),
        ("library with sqlx", "sqlx-0_9"),
    ] {
        let mut command = run::cargo(["clippy", "--package", "jobwright", "--lib", "--locked", "--features", features]);
        report.step(name, || run::run(command.args(["--", "-D", "warnings"]), run::CARGO)).then_some(())?;
    }
    Some(())
}

/// Builds the documentation, private items too, and compares the public API with its list.
pub(crate) fn documentation(report: &mut Report) -> Option<()> {
    report
        .step("documentation", || {
            // Libraries only: the binary is named like the library, and their pages would overwrite each other.
            let mut command = run::cargo(["doc", "--workspace", "--lib", "--no-deps"]);
            command.args(["--document-private-items", "--locked"]);
            run::run(command.env("RUSTDOCFLAGS", "-D warnings"), run::CARGO)
        })
        .then_some(())?;
    report.step("public API", || api::run(false)).then_some(())
}

/// Runs the checks of cargo-deny that work without a network. Advisories need RustSec's database and have a separate job.
pub(crate) fn deny(report: &mut Report) -> Option<()> {
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
