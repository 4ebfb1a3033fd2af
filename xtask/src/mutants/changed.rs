//! Defects that cargo-mutants plants by its rules in the lines that a change touches: `cargo xtask mutants --changed`.
//!
//! It replaces the body of a function, an operator, a guard; it knows nothing of SQL, and exchanges no steps. It compiles for each defect, so it
//! tries those in the change only, and the caller may name the tests that have to notice.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::report::Report;
use crate::run::{self, Result};
use crate::services::{self, Urls};
use crate::{runner, test};

/// The branch that changes are for.
const BASE: &str = "main";
/// The limits for one defect, in seconds: of compiling, and of all its tests. A single test that hangs ends before (profile `mutants`).
const BUILD: &str = "1800";
const TESTS: &str = "1800";
/// The limit for all defects: a change with more of them has to be divided.
const DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    /// A revision: what differs from where this branch left it has changed.
    base: String,
    /// Arguments for the test runner.
    extra: Vec<String>,
}

impl Options {
    pub(super) fn parse(words: &[&str]) -> Result<Self> {
        let (base, extra) = match words {
            [] => (BASE, &[][..]),
            ["--", extra @ ..] => (BASE, extra),
            [base] => (*base, &[][..]),
            [base, "--", extra @ ..] => (*base, extra),
            [_, other, ..] => {
                return Err(format!(
                    "mutants --changed: `{other}` is unexpected; the runner's arguments go after `--`"
                ));
            }
        };
        if base.starts_with('-') {
            return Err(format!("mutants --changed: `{base}` is no revision"));
        }
        Ok(Self { base: base.to_owned(), extra: extra.iter().map(|&word| word.to_owned()).collect() })
    }
}

pub(super) fn steps(options: &Options, report: &mut Report) {
    let mut found = None;
    let ready = report.step("cargo-mutants", installed)
        && report.step("services up", || services::up().map(|urls| found = Some(urls)))
        && report.step("tools", services::tools)
        && report.step("test runner", runner::ensure);
    let Some(urls) = found.filter(|_| ready) else { return };
    report.step(&format!("defects in what has changed since {}", options.base), || hunt(options, &urls));
}

fn installed() -> Result<()> {
    if test::installed("mutants") {
        return Ok(());
    }
    Err("cargo-mutants is not installed: `cargo install cargo-mutants --locked` (some minutes)".to_owned())
}

fn hunt(options: &Options, urls: &Urls) -> Result<()> {
    let folder = run::workspace().join("target/mutants");
    let diff = folder.join("changed.diff");
    fs::create_dir_all(&folder).map_err(|why| format!("cannot create {}: {why}", folder.display()))?;
    let mut compare = Command::new("git");
    // Whatever the user's settings of git, which cargo-mutants does not know.
    compare.args([
        "-c",
        "diff.noprefix=false",
        "-c",
        "diff.mnemonicPrefix=false",
        "diff",
        "--no-ext-diff",
        "--no-color",
    ]);
    compare.args(["--merge-base", &options.base]).arg(format!("--output={}", diff.display()));
    compare.args(["--", "src/*.rs", "cli/src/*.rs"]).current_dir(run::workspace());
    run::capture(&mut compare, Duration::from_secs(60))?;
    if fs::metadata(&diff).is_ok_and(|found| found.len() == 0) {
        return Err(format!(
            "no file of src/ and cli/src/ has changed since {} (`git add` makes new ones count)",
            options.base
        ));
    }
    // What an earlier run has left would pass for what this one has found.
    let out = folder.join("mutants.out");
    if out.exists() {
        fs::remove_dir_all(&out).map_err(|why| format!("cannot remove {}: {why}", out.display()))?;
    }
    let mut command = run::cargo(["mutants", "--in-diff"]);
    command.arg(&diff).args(["--package", "jobwright", "--package", "jobwright-http", "--package", "jobwright-cli"]);
    command
        .args(["--all-features", "--test-tool", "nextest", "--build-timeout", BUILD, "--timeout", TESTS, "--output"])
        .arg(&folder);
    if !options.extra.is_empty() {
        command.arg("--").args(&options.extra);
    }
    // Its copy of the tree has a target folder of its own.
    command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_TARGET_DIR");
    // Of this profile, so that each test has a deadline, and the first that fails is the last.
    command.env("NEXTEST_PROFILE", "mutants").env("JOBWRIGHT_TEST_NO_FOREIGN", "1");
    run::run(command.envs(urls.variables()), DEADLINE).map_err(|why| {
        format!(
            "{why}; {} has the defects that survived, if any (missed.txt), and what the tests said of each",
            out.display()
        )
    })?;
    if !out.exists() {
        return Err(format!("cargo-mutants plants nothing in what has changed since {}", options.base));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> (String, Vec<String>) {
        let options = Options::parse(words).unwrap();
        (options.base, options.extra)
    }

    #[test]
    fn a_base_and_arguments_of_the_runner_are_optional() {
        assert_eq!(parsed(&[]), ("main".to_owned(), Vec::new()));
        assert_eq!(parsed(&["v0.1.0"]).0, "v0.1.0");
        assert_eq!(parsed(&["--", "-E", "test(x)"]), ("main".to_owned(), vec!["-E".to_owned(), "test(x)".to_owned()]));
        assert_eq!(parsed(&["HEAD~3", "--", "x"]), ("HEAD~3".to_owned(), vec!["x".to_owned()]));
        assert!(Options::parse(&["HEAD~3", "x"]).is_err());
        assert!(Options::parse(&["--in-diff"]).is_err());
    }
}
