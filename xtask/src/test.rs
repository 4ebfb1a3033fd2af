//! All tests, the doc tests, the documents, the examples, and the operator's night script.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::report::Report;
use crate::run::{self, Result};
use crate::services::{self, Urls};
use crate::{documents, failures, runner};

/// An example that runs longer than this hangs: they are short tours.
const EXAMPLE_DEADLINE: Duration = Duration::from_secs(180);

/// The script for operators, in which each wait is bounded by two minutes.
const NIGHT: &str = "examples/ops/night.sh";
const NIGHT_DEADLINE: Duration = Duration::from_secs(300);

/// The filter of the tests that are left to [`crate::sets`], because the runner's profile leaves them out: they go on for as long as they are told to.
pub(crate) const LEFT_OUT: &str = "not default()";

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// No servers: the tests read `JOBWRIGHT_TEST_EMBEDDED_ONLY`.
    pub(crate) embedded_only: bool,
    /// Also the tests that are left to each night.
    pub(crate) all: bool,
    /// The runner's profile `ci`: a test that fails is run again, to tell flaky tests from broken ones. Both fail.
    pub(crate) gate: bool,
    /// Arguments for the test runner.
    pub(crate) extra: Vec<String>,
}

/// Returns a run of the runner on all members, since for one alone features differ, and every dependency would be built again.
pub(crate) fn nextest(profile: &str) -> Command {
    let mut command = run::cargo(["nextest", "run", "--workspace", "--profile", profile]);
    // Set where there are no servers, and nowhere else: tests that skip themselves look like tests that passed.
    command.env_remove(EMBEDDED_ONLY);
    // Most of them wait most of the time: for a lease, a server, another process.
    if std::env::var_os("NEXTEST_TEST_THREADS").is_none() {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        command.env("NEXTEST_TEST_THREADS", (SIDE_BY_SIDE * cores).min(MOST_SIDE_BY_SIDE).to_string());
    }
    command
}

/// The variable that makes tests do without servers.
const EMBEDDED_ONLY: &str = "JOBWRIGHT_TEST_EMBEDDED_ONLY";

/// How many tests run at the same time on each core, and on all of them: a server has connections for no more.
const SIDE_BY_SIDE: usize = 3;
const MOST_SIDE_BY_SIDE: usize = 18;

/// Returns a run of one test that an ordinary run ignores. It fails if there is no such test.
pub(crate) fn one(kind: &str, program: &str, test: &str) -> Command {
    let mut command = nextest("long");
    command.args([kind, program, "--run-ignored", "only", "--no-capture"]);
    command.args(["-E", &format!("test(={test})")]);
    command
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut report = Report::default();
    if let Some(environment) = prepare(options, &mut report) {
        steps(options, &environment, &mut report);
        if !options.all && options.extra.is_empty() {
            report.step("tests left to `cargo xtask nightly`, and to `test --all`", list_left_out);
        }
    }
    report.finish()
}

/// Prints the names of the tests that the runner's profile leaves out, one to a line.
fn list_left_out() -> Result<()> {
    let mut command = run::cargo(["nextest", "list", "--workspace", "--cargo-quiet", "--message-format", "oneline"]);
    command.args(["--ignore-default-filter", "-E", LEFT_OUT]);
    run::run(&mut command, run::CARGO)
}

/// Makes what the tests need: servers, tools, clients, the test runner. `None` if that failed.
pub(crate) fn prepare(options: &Options, report: &mut Report) -> Option<Environment> {
    let mut environment = Environment::default();
    if !options.embedded_only {
        report.step("services up", || services::up().map(|urls| environment.urls = Some(urls))).then_some(())?;
        report.step("tools", services::tools).then_some(())?;
        report.step("foreign clients", || {
            environment.foreign = services::foreign::variables();
            Ok(())
        });
    }
    report.step("test runner", runner::ensure).then_some(environment)
}

/// Makes the servers and the test runner. `None` if that failed.
pub(crate) fn with_servers(report: &mut Report) -> Option<Environment> {
    let mut environment = Environment::default();
    report.step("services up", || services::up().map(|urls| environment.urls = Some(urls))).then_some(())?;
    report.step("test runner", runner::ensure).then_some(environment)
}

/// Runs all steps, whatever fails on the way, so that one run shows everything that is broken.
pub(crate) fn steps(options: &Options, environment: &Environment, report: &mut Report) {
    let profile = if options.gate { "ci" } else { "default" };
    failures::step(report, "tests", profile, || {
        let mut command = nextest(profile);
        if options.all {
            command.arg("--ignore-default-filter");
        }
        run::run(environment.set(command.args(&options.extra)), run::CARGO)
    });
    report
        .step("doc tests", || run::run(environment.set(&mut run::cargo(["test", "--doc", "--workspace"])), run::CARGO));
    report.step("documents", || documents::test_all(environment));

    // All members in one command: cargo then chooses the same features as for the tests, so that almost nothing is built again.
    let built = report.step("build the examples and the program", || {
        run::run(&mut run::cargo(["build", "--workspace", "--bins", "--examples"]), run::CARGO)
    });
    if built {
        run_examples(environment, report);
        run_night(environment, report);
    }
}

fn run_examples(environment: &Environment, report: &mut Report) {
    let names = match examples(&run::workspace().join("examples")) {
        Ok(names) => names,
        Err(why) => {
            report.step("examples", || Err(why));
            return;
        }
    };
    for name in names {
        report.step(&format!("example {name}"), || {
            let mut command = Command::new(built("examples").join(&name));
            command.current_dir(run::workspace());
            run::run(environment.set(&mut command), EXAMPLE_DEADLINE)
        });
    }
}

/// Runs a night on call with the program's commands: on an embedded database, and on the server if there is one.
fn run_night(environment: &Environment, report: &mut Report) {
    let stores = if environment.urls.is_some() { &["sqlite", "postgres"][..] } else { &["sqlite"] };
    for store in stores {
        report.step(&format!("{NIGHT} on {store}"), || {
            let mut command = Command::new("sh");
            environment.set(command.arg(NIGHT).current_dir(run::workspace()).env("JOBWRIGHT", built("jobwright")));
            if *store == "sqlite" {
                command.env_remove("DATABASE_URL");
            }
            // The program refuses variables that it does not know, such as those of the tests; and the script needs no broker.
            command.env_remove("AMQP_URL");
            let tests = |name: &String| name.starts_with("JOBWRIGHT_");
            let names: Vec<String> = std::env::vars().map(|(name, _)| name).filter(tests).collect();
            for name in names.iter().map(String::as_str).chain(environment.foreign.iter().map(|(name, _)| *name)) {
                command.env_remove(name);
            }
            command.env_remove(EMBEDDED_ONLY);
            run::run(&mut command, NIGHT_DEADLINE)
        });
    }
}

/// Returns the path of a program that cargo has just built.
pub(crate) fn built(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    run::workspace().join(target).join("debug").join(name)
}

/// The environment of the tests and the examples. By default there are no servers.
#[derive(Default)]
pub(crate) struct Environment {
    urls: Option<Urls>,
    /// Where the clients in other languages are.
    foreign: Vec<(&'static str, String)>,
}

impl Environment {
    pub(crate) fn set<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        match &self.urls {
            Some(urls) => command.envs(urls.variables()).envs(self.foreign.iter().cloned()).env_remove(EMBEDDED_ONLY),
            None => {
                for name in Urls::NAMES {
                    command.env_remove(name);
                }
                command.env(EMBEDDED_ONLY, "1")
            }
        }
    }
}

/// Returns the folder of programs that only this checkout's own commands use.
pub(crate) fn tools_home() -> PathBuf {
    run::workspace().join("target").join("tools")
}

/// Whether `cargo NAME` exists.
pub(crate) fn installed(name: &str) -> bool {
    run::capture(&mut run::cargo([name, "--version"]), Duration::from_secs(30)).is_ok()
}

/// Returns the names of the Rust examples, in order. No folder, no examples.
fn examples(folder: &Path) -> Result<Vec<String>> {
    let problem = |why| format!("cannot list {}: {why}", folder.display());
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in folder.read_dir().map_err(problem)? {
        let path = entry.map_err(problem)?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}
